//! Texts of lengths, as they are read and written.

use std::time::Duration;

use proptest::prelude::*;

use super::{MALFORMED, exact};
use crate::length::{LONGEST, Length, TOO_FINE, TOO_LONG, TOO_SHORT};

#[test]
fn texts_read_as_their_length() {
    for (text, length) in [
        ("PT5M", Duration::from_secs(300)),
        ("PT1H", Duration::from_secs(3_600)),
        ("P1D", Duration::from_secs(86_400)),
        ("P1W", Duration::from_secs(604_800)),
        ("P1W1DT1H1M1S", Duration::from_secs(694_861)),
        ("PT90M", Duration::from_secs(5_400)),
        ("PT0.5H", Duration::from_secs(1_800)),
        ("P0,5D", Duration::from_secs(43_200)),
        ("PT1M0.25S", Duration::from_millis(60_250)),
        ("PT0.000001S", Duration::from_micros(1)),
        ("PT0.5000000000S", Duration::from_millis(500)),
        ("P1DT2H3M4.5S", Duration::from_millis(93_784_500)),
        ("PT0H5M", Duration::from_secs(300)),
        ("PT00600S", Duration::from_secs(600)),
        ("P0M1D", Duration::from_secs(86_400)),
        ("P36525D", LONGEST),
        ("5s", Duration::from_secs(5)),
        ("90s", Duration::from_secs(90)),
        ("15m", Duration::from_secs(900)),
        ("1h30m", Duration::from_secs(5_400)),
        ("1.5h", Duration::from_secs(5_400)),
        ("1d", Duration::from_secs(86_400)),
        ("2w1d", Duration::from_secs(15 * 86_400)),
        ("500ms", Duration::from_millis(500)),
        ("1s5us", Duration::from_micros(1_000_005)),
        ("1m5ms", Duration::from_millis(60_005)),
        ("0h1m", Duration::from_secs(60)),
        ("36525d", LONGEST),
    ] {
        assert_eq!(exact(text), Ok(length), "{text}");
    }
    for (text, length) in [("P1M", Length::months(1)), ("P1Y2M", Length::months(14)), ("P100Y", Length::years(100))] {
        assert_eq!(text.parse(), Ok(length), "{text}");
    }
    let all = Length::months(14).plus(Duration::from_millis(2_264_767_500));
    assert_eq!("P1Y2M3W5DT5H6M7.5S".parse(), Ok(all));
}

#[test]
fn an_unusable_text_is_refused_with_its_reason() {
    let malformed = [
        "", "P", "PT", "P1DT", "1D", "PX", "p1d", "P1", "PT1", "P1D1W", "PT1.5.5S", "PT1é", "PD", "P1H", "PT1D",
        "PT1M1H", "PT1H1H", "PT1HT1M", "PT1.S", "PT.5S", "PT1e3S", "PT+1S", " PT1S", "PT1S ", "PT１S", "one hour",
        "-P1D", "P-1D", "0", "5", "s", "5 s", "5S", "-5s", "5s1m", "1m1m", "1mo", "1y", "five", "5s\u{e9}", "1.h",
        "P1M1Y", "P1.M",
    ];
    let given = malformed.map(|text| (text, MALFORMED)).into_iter().chain([
        ("P1M", "years and months have no fixed length"),
        ("P1Y", "years and months have no fixed length"),
        ("P1.5Y", "years and months must be whole numbers"),
        ("P1.0M", "years and months must be whole numbers"),
        ("PT0S", TOO_SHORT),
        ("P0D", TOO_SHORT),
        ("0s", TOO_SHORT),
        ("0m0s", TOO_SHORT),
        ("P0Y0M", TOO_SHORT),
        ("PT0.5H1M", "only the last unit may have a fraction"),
        ("1.0h1m", "only the last unit may have a fraction"),
        ("P1.5Y1D", "only the last unit may have a fraction"),
        ("PT0.0000001S", TOO_FINE),
        ("0.5us", TOO_FINE),
        ("PT0.0000000000000000000000000000001H", TOO_FINE),
        ("PT0.00000000000000000000000000000000000000001S", TOO_FINE),
        ("P36525DT1S", TOO_LONG),
        ("P36525DT0.0000001S", TOO_LONG),
        ("36526d", TOO_LONG),
        ("P1201M", TOO_LONG),
        ("P99999999999999999999D", TOO_LONG),
        ("99999999999999999999s", TOO_LONG),
        ("P99999999999999999999Y", TOO_LONG),
        ("18446744073709s600000ms", TOO_LONG),
        ("PT18446744073709551615S", TOO_LONG),
    ]);
    for (text, problem) in given {
        let invalid = exact(text).unwrap_err();
        assert_eq!((&*invalid.reason, invalid.item.as_deref()), (problem, Some(text)));
    }
    assert_eq!(exact(&format!("PT{}1S", "0".repeat(60))), Ok(Duration::from_secs(1)));
    assert_eq!(exact(&format!("PT{}1S", "0".repeat(61))).unwrap_err().reason, MALFORMED);
}

#[test]
fn lengths_are_written_without_empty_parts() {
    for (length, text) in [
        (Duration::from_secs(900), "PT15M"),
        (Duration::from_secs(604_800), "P7D"),
        (Duration::from_secs(5_400), "PT1H30M"),
        (Duration::from_secs(86_401), "P1DT1S"),
        (Duration::from_micros(1), "PT0.000001S"),
        (Duration::from_millis(60_250), "PT1M0.25S"),
        (Duration::ZERO, "PT0S"),
        (Duration::from_nanos(1), "PT0.000000001S"),
        (Duration::MAX, "P213503982334601DT7H15.999999999S"),
    ] {
        assert_eq!(Length::from(length).to_string(), text);
    }
    assert_eq!(Length::months(14).plus(Duration::from_secs(60)).to_string(), "P1Y2MT1M");
    assert_eq!(Length::years(1).to_string(), "P1Y");
}

#[test]
fn lengths_are_limited() {
    let problem = |length: Length| length.check().map_err(|invalid| invalid.reason);
    assert_eq!(problem(Length::months(1_200)), Ok(()));
    assert_eq!(problem(Length::months(1_201)), Err(TOO_LONG.to_owned()));
    assert_eq!(problem(Length::years(u32::MAX)), Err(TOO_LONG.to_owned()));
    assert_eq!(problem(Length::years(100).plus(Duration::from_micros(1))), Err(TOO_LONG.to_owned()));
    assert_eq!(problem(Length::months(1).plus(Duration::from_nanos(1))), Err(TOO_FINE.to_owned()));
    assert_eq!(problem(Duration::MAX.into()), Err(TOO_LONG.to_owned()));
    assert_eq!(problem(Duration::ZERO.into()), Err(TOO_SHORT.to_owned()));
    assert!(crate::check_window(Duration::from_secs(1)).is_ok());
    let fine = crate::check_window(Duration::from_millis(1_500)).unwrap_err();
    assert_eq!((&*fine.reason, fine.item.as_deref()), ("must be whole seconds", Some("PT1.5S")));
}

proptest! {
    #[test]
    fn a_written_length_reads_back(months in 0..1_199_u32, microseconds in 1..2_000_000_000_000_u64) {
        let length = Length::months(months).plus(Duration::from_micros(microseconds));
        prop_assert_eq!(length.to_string().parse(), Ok(length));
    }

    #[test]
    fn no_text_panics(text in "P?[-0-9WDTHMSYwdhmsu.,]{0,24}") {
        let _ = text.parse::<Length>();
    }
}

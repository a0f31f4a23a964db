//! Schedules while the clock of a zone is put forward or back, and schedules beside another library's.

use croner::parser::CronParser;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use time::OffsetDateTime;
use time::macros::datetime;

use super::Schedule;

/// The slots after a time, as a zone's clock shows them, with the offset.
fn shown(text: &str, zone: &str, from: OffsetDateTime, count: usize) -> Vec<String> {
    let schedule = Schedule::read(text, zone).unwrap();
    let clock = TimeZone::get(zone).unwrap();
    std::iter::successors(schedule.next_after(from), |at| schedule.next_after(*at))
        .take(count)
        .map(|slot| {
            let shown = Timestamp::from_second(slot.unix_timestamp()).unwrap().to_zoned(clock.clone());
            shown.strftime("%d %H:%M %:z").to_string()
        })
        .collect()
}

/// Berlin, 29 March 2026: 02:00 becomes 03:00.
fn in_spring(text: &str, count: usize) -> Vec<String> {
    shown(text, "Europe/Berlin", datetime!(2026-03-28 12:00 UTC), count)
}

/// Berlin, 25 October 2026: 03:00 becomes 02:00.
fn in_autumn(text: &str, count: usize) -> Vec<String> {
    shown(text, "Europe/Berlin", datetime!(2026-10-24 12:00 UTC), count)
}

#[test]
fn a_fixed_time_that_the_clock_skips_runs_once_right_after_the_gap() {
    assert_eq!(in_spring("30 2 * * *", 2), ["29 03:00 +02:00", "30 02:30 +02:00"]);
    assert_eq!(
        in_spring("0 2,14 * * *", 4),
        ["28 14:00 +01:00", "29 03:00 +02:00", "29 14:00 +02:00", "30 02:00 +02:00"]
    );
    assert_eq!(in_spring("0,30 2 * * *", 2), ["29 03:00 +02:00", "30 02:00 +02:00"], "both at once are one");
    assert_eq!(
        in_spring("0 1-4 * * *", 4),
        ["29 01:00 +01:00", "29 03:00 +02:00", "29 04:00 +02:00", "30 01:00 +02:00"]
    );
    assert_eq!(in_spring("30 1-3 * * *", 3), ["29 01:30 +01:00", "29 03:00 +02:00", "29 03:30 +02:00"]);
}

#[test]
fn a_fixed_time_that_the_clock_repeats_runs_once_the_first_time() {
    assert_eq!(in_autumn("30 2 * * *", 2), ["25 02:30 +02:00", "26 02:30 +01:00"]);
    assert_eq!(
        in_autumn("0 2,14 * * *", 4),
        ["25 02:00 +02:00", "25 14:00 +01:00", "26 02:00 +01:00", "26 14:00 +01:00"]
    );
    assert_eq!(in_autumn("30 1-3 * * *", 3), ["25 01:30 +02:00", "25 02:30 +02:00", "25 03:30 +01:00"]);
    // Asked in the second of the two hours, as after a restart.
    let again = shown("30 2 * * *", "Europe/Berlin", datetime!(2026-10-25 1:10 UTC), 1);
    assert_eq!(again, ["26 02:30 +01:00"]);
}

#[test]
fn an_expression_with_a_star_in_its_time_follows_the_clock() {
    assert_eq!(in_spring("0 */2 * * *", 8)[6..], ["29 04:00 +02:00", "29 06:00 +02:00"], "02:00 was not shown");
    assert_eq!(in_spring("*/30 2 * * *", 2), ["30 02:00 +02:00", "30 02:30 +02:00"]);
    let twice = ["25 02:00 +02:00", "25 02:30 +02:00", "25 02:00 +01:00", "25 02:30 +01:00"];
    assert_eq!(in_autumn("*/30 2 * * *", 4), twice);
    let hourly = in_autumn("0 * * * *", 16);
    assert_eq!(
        hourly[11..],
        ["25 02:00 +02:00", "25 02:00 +01:00", "25 03:00 +01:00", "25 04:00 +01:00", "25 05:00 +01:00"]
    );
}

#[test]
fn clock_changes_of_other_lengths_and_at_midnight_keep_the_rule() {
    // Lord Howe, 4 October 2026: 02:00 becomes 02:30, and back on 5 April.
    let lord_howe = |at| shown("15 2 * * *", "Australia/Lord_Howe", at, 2);
    assert_eq!(lord_howe(datetime!(2026-10-03 3:00 UTC)), ["04 02:30 +11:00", "05 02:15 +11:00"]);
    assert_eq!(
        shown("45 1 * * *", "Australia/Lord_Howe", datetime!(2026-04-04 3:00 UTC), 2),
        ["05 01:45 +11:00", "06 01:45 +10:30"]
    );
    // Beirut, 29 March 2026: the day begins at 01:00.
    assert_eq!(
        shown("0 0 * * *", "Asia/Beirut", datetime!(2026-03-28 12:00 UTC), 2),
        ["29 01:00 +03:00", "30 00:00 +03:00"]
    );
    // Apia left out 30 December 2011.
    assert_eq!(
        shown("0 9 * * *", "Pacific/Apia", datetime!(2011-12-29 12:00 UTC), 3),
        ["29 09:00 -10:00", "31 00:00 +14:00", "31 09:00 +14:00"]
    );
}

#[test]
fn slots_that_were_missed_over_a_clock_change_are_each_found_once() {
    for text in ["*/20 * * * *", "30 2 * * *", "0 2,14 * * *", "15,45 0-5 * * *"] {
        let schedule = Schedule::read(text, "Europe/Berlin").unwrap();
        for begin in [datetime!(2026-03-28 9:00 UTC), datetime!(2026-10-24 9:00 UTC)] {
            let (first, now) = (schedule.next_after(begin).unwrap(), begin + time::Duration::seconds(2 * 86_400 + 1));
            let mut expected = vec![first];
            while let Some(slot) = schedule.next_after(expected[expected.len() - 1]).filter(|slot| *slot <= now) {
                expected.push(slot);
            }
            assert_eq!(
                schedule.last_between(first, now),
                expected.last().copied().filter(|_| expected.len() > 1),
                "{text}"
            );
            for (place, slot) in expected.iter().enumerate().skip(2) {
                assert_eq!(schedule.last_between(first, *slot), Some(expected[place - 1]), "{text}");
            }
        }
    }
}

/// A field that both libraries read: a list of values, ranges and steps.
fn field(lowest: u32, highest: u32) -> impl Strategy<Value = String> {
    let value = lowest..=highest;
    let item = prop_oneof![
        value.clone().prop_map(|value| value.to_string()),
        (value.clone(), value).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
        (1..=highest.min(20)).prop_map(|step| format!("*/{step}")),
    ];
    prop_oneof![
        2 => Just("*".to_owned()),
        3 => prop::collection::vec(item, 1..4).prop_map(|items| items.join(",")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn without_clock_changes_slots_are_those_of_another_library(
        second in field(0, 59),
        minute in field(0, 59),
        hour in field(0, 23),
        of_month in prop_oneof![
            4 => field(1, 31),
            1 => prop::sample::select(vec!["L", "LW", "15W", "1W", "31W", "3W,28W", "?"]).prop_map(str::to_owned),
        ],
        month in field(1, 12),
        of_week in prop_oneof![
            4 => field(0, 7),
            1 => prop::sample::select(vec!["MON#1", "5#5", "FRIL", "1L,3#2", "sat", "?"]).prop_map(str::to_owned),
        ],
        from in 0_i64..4_000_000_000,
    ) {
        let text = format!("{second} {minute} {hour} {of_month} {month} {of_week}");
        let other = CronParser::new().parse(&text).unwrap();
        let mut at = Timestamp::from_second(from).unwrap().to_zoned(TimeZone::UTC);
        let Ok(schedule) = Schedule::read(&text, "UTC") else {
            prop_assert!(other.find_next_occurrence(&at, false).is_err(), "{}", text);
            return Ok(());
        };
        for _ in 0..5 {
            let slot = schedule.next_after(OffsetDateTime::from_unix_timestamp(at.timestamp().as_second()).unwrap());
            at = other.find_next_occurrence(&at, false).unwrap();
            prop_assert_eq!(slot.map(OffsetDateTime::unix_timestamp), Some(at.timestamp().as_second()), "{}", text);
        }
    }
}

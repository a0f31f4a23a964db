//! Lengths of time in ISO 8601, of weeks and shorter units, whose length is fixed.

use std::time::Duration;

/// Reads a length such as `PT1S`, `PT0.5S` or `P1DT12H`. `None`: it is none, or has months or years.
pub(crate) fn read(text: &str) -> Option<Duration> {
    match text {
        // The library's lengths are above zero.
        "PT0S" => Some(Duration::ZERO),
        _ if text.starts_with('P') => uniqueue::period::parse(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_their_order_and_nothing_else_is() {
        let millis = |text| read(text).map(|length| length.as_millis());
        assert_eq!(millis("PT1S"), Some(1_000));
        assert_eq!(millis("PT0.5S"), Some(500));
        assert_eq!(millis("P1DT1H1M1S"), Some(90_061_000));
        assert_eq!(millis("P2W"), Some(1_209_600_000));
        for wrong in ["", "P", "PT", "1S", "PT1", "P1Y", "P1M", "PT1S1M", "PT.S", "PT1.S", "PT-1S", "PT1e9S", "PTé"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read("PT99999999999999S"), None);
    }
}

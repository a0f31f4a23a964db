//! Lengths of time as text for people.

use std::time::Duration;

/// Writes a length of time in its two largest units, such as `2h 5m`. The command and the library write every length so.
///
/// ```
/// use std::time::Duration;
/// use uniqueue::format_duration;
///
/// assert_eq!(format_duration(Duration::from_millis(1_500)), "1.5s");
/// assert_eq!(format_duration(Duration::from_secs(7_530)), "2h 5m");
/// ```
#[must_use]
pub fn format_duration(length: Duration) -> String {
    let (seconds, micros) = (length.as_secs(), length.as_micros());
    let two = |large: u64, unit: char, small: u64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    let with_tenths = |number: f64, unit: &str| {
        let text = format!("{number:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match seconds {
        0 if micros == 0 => "0s".to_owned(),
        0 if micros < 10_000 => with_tenths((length.as_secs_f64() * 1_000.0).max(0.1), "ms"),
        0 => format!("{}ms", length.as_millis()),
        1..10 => with_tenths(length.as_secs_f64(), "s"),
        10..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds % 3_600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3_600, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_two_largest_units() {
        let text = |milliseconds| format_duration(Duration::from_millis(milliseconds));
        assert_eq!([0, 4, 320, 1_000, 4_250, 42_000].map(text), ["0s", "4ms", "320ms", "1s", "4.2s", "42s"]);
        assert_eq!([60_000, 312_000, 7_500_000, 90_000_000].map(text), ["1m", "5m 12s", "2h 5m", "1d 1h"]);
        assert_eq!(format_duration(Duration::from_micros(730)), "0.7ms");
        assert_eq!(format_duration(Duration::from_micros(1)), "0.1ms");
    }
}

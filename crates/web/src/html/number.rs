//! Numbers.

use uniqueue::JobCount;

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of jobs. A plus says that counting stopped there.
pub(crate) fn count(count: JobCount) -> String {
    let more = if count.is_exact() { "" } else { "+" };
    format!("{}{more}", grouped(count.counted()))
}

/// Jobs a second.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() || rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.1 => "<0.1".to_owned(),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => grouped(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(JobCount::AtLeast(10_000)), "10,000+");
        assert_eq!(rate(0.02), "<0.1");
        assert_eq!(rate(12_345.6), "12,346");
    }
}

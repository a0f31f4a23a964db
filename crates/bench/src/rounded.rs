//! Figures as they are printed.

/// Rounds to thousandths.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

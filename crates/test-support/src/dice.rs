//! Random choices from a seed, so that a run can be repeated.

use std::time::Duration;

/// SplitMix64: small, and good enough for choosing.
pub struct Dice(u64);

impl Dice {
    /// Dice of their own for each user, so that one's throws do not depend on another's.
    pub fn new(seed: u64, user: u64) -> Self {
        let mut dice = Self(seed ^ user.wrapping_mul(0xA24B_AED4_963E_E407));
        dice.number();
        dice
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

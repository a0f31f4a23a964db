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

    pub fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).expect("it is below a usize")
    }

    /// Throws the dice: true once in this number of throws.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.index(times) == 0
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// A JSON number: some have more digits than a double holds, or are beyond its range.
    pub fn json_number(&mut self) -> String {
        let digits = |dice: &mut Self, most| {
            (0..=dice.below(most)).map(|_| char::from(b'0' + dice.below(10) as u8)).collect::<String>()
        };
        let whole = digits(self, 30);
        let mut number = match whole.trim_start_matches('0') {
            "" => "0".to_owned(),
            whole => whole.to_owned(),
        };
        if self.percent(50) {
            number = format!("-{number}");
        }
        if self.percent(50) {
            number = format!("{number}.{}", digits(self, 20));
        }
        if self.percent(30) {
            number = format!("{number}e{}", self.below(800) as i64 - 400);
        }
        number
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A JSON array of this many numbers.
pub fn numbers(dice: &mut Dice, count: usize) -> String {
    let numbers: Vec<_> = (0..count).map(|_| dice.json_number()).collect();
    format!("[{}]", numbers.join(","))
}

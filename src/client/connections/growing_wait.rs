//! The wait between tries while the database is away.

use std::time::Duration;

/// A wait that doubles with each failure in a row, from 50 ms to 5 s.
pub(crate) struct GrowingWait {
    next: Duration,
}

impl GrowingWait {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    pub(crate) fn grow(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(Self::LONGEST);
        wait
    }
}

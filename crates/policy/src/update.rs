//! How a duplicate changes a holder that waits.

use std::time::Duration;

words! {
    member "update";

    /// How an update changes the args of the holder.
    pub enum UpdateArgs {
        /// The newcomer's args take the place of the holder's. The default.
        Latest = "latest",
        /// The newcomer's top-level members are added to the holder's. Of two with one name, the newcomer's counts.
        Merge = "merge",
        /// The items of the newcomer's arrays are added to the holder's arrays of the same name. Other members must
        /// be equal, or new.
        Append = "append",
    }
}

/// The changes of a waiting holder by a duplicate, under [`OnConflict::Update`](crate::OnConflict::Update).
///
/// ```
/// use std::time::Duration;
/// use uniqueue_policy::{Update, UpdateArgs};
///
/// // Collect events into one job, which runs 5 seconds after the last one and a minute after the first at the latest.
/// let update = Update::append().debounce(Duration::from_secs(5), Duration::from_secs(60));
/// assert_eq!(update.args, UpdateArgs::Append);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Update {
    /// How the args change.
    pub args: UpdateArgs,
    /// How long after its insert the job is due, where the insert gives no time.
    pub delay: Option<Duration>,
    /// How long after its insert the job can be due at most. `None`: duplicates do not move its time.
    pub max_delay: Option<Duration>,
    /// The most items of an array, where it is set.
    pub max_items: Option<u32>,
}

impl Update {
    /// An array with more items than this ends the holder's claim. Default of [`max_items`](Self::max_items).
    pub const DEFAULT_MAX_ITEMS: u32 = 1_000;

    /// The most that [`max_items`](Self::max_items) allows.
    pub const MOST_ITEMS: u32 = 1_000_000;

    /// The newcomer's args take the place of the holder's. The default.
    #[must_use]
    pub const fn latest() -> Self {
        Self { args: UpdateArgs::Latest, delay: None, max_delay: None, max_items: None }
    }

    /// The newcomer's top-level members are added to the holder's args.
    #[must_use]
    pub const fn merge() -> Self {
        Self { args: UpdateArgs::Merge, ..Self::latest() }
    }

    /// The items of the newcomer's arrays are added to the holder's arrays.
    #[must_use]
    pub const fn append() -> Self {
        Self { args: UpdateArgs::Append, ..Self::latest() }
    }

    /// Debounces: the job runs `delay` after its latest duplicate, and at most `max_delay` after its own insert. An insert
    /// that gives a time, as with `scheduled_in`, keeps that time. It is [`push`](Self::push) with a default for the time.
    /// The delay must be shorter than `max_delay`. Both are at most 100 years, in whole microseconds.
    #[must_use]
    pub const fn debounce(mut self, delay: Duration, max_delay: Duration) -> Self {
        self.delay = Some(delay);
        self.push(max_delay)
    }

    /// Moves the holder's scheduled time to the newcomer's, but never beyond `max_delay` after the holder
    /// was created and never to an earlier time. Only a scheduled holder that was never attempted and is not due moves.
    /// The newcomer's own delay must be shorter. Default: the schedule is kept.
    #[must_use]
    pub const fn push(mut self, max_delay: Duration) -> Self {
        self.max_delay = Some(max_delay);
        self
    }

    /// The most items of an array of the args under [`append`](Self::append). A holder that would get more gives up
    /// its claim, and the newcomer is inserted. Default 1,000, at most 1,000,000.
    #[must_use]
    pub const fn max_items(mut self, max_items: u32) -> Self {
        self.max_items = Some(max_items);
        self
    }
}

impl Default for Update {
    fn default() -> Self {
        Self::latest()
    }
}

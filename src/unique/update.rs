//! How a duplicate changes a holder that waits.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::period::{self, Length};
use crate::unique::flaw::{invalid, require};

/// The most items that [`Update::max_items`] allows.
const MOST_ITEMS: u32 = 1_000_000;

words! {
    field "update.args";

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

/// What a duplicate does to a waiting holder, under [`OnConflict::Update`](crate::OnConflict::Update).
///
/// ```
/// use std::time::Duration;
/// use uniqueue::{Update, UniquePolicy};
///
/// // Collect events into one job, which runs 5 seconds after the last one and a minute after the first at the latest.
/// let policy = UniquePolicy::new()
///     .by_arg_fields(["customer"])
///     .update(Update::append().push(Duration::from_secs(60)));
/// policy.check()?;
/// # Ok::<(), uniqueue::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Update {
    args: UpdateArgs,
    max_delay: Option<Duration>,
    max_items: Option<u32>,
}

impl Update {
    /// An array with more items than this ends the holder's claim. Default of [`max_items`](Self::max_items).
    pub const DEFAULT_MAX_ITEMS: u32 = 1_000;

    /// The newcomer's args take the place of the holder's. The default.
    #[must_use]
    pub const fn latest() -> Self {
        Self::of(UpdateArgs::Latest)
    }

    /// The newcomer's top-level members are added to the holder's args.
    #[must_use]
    pub const fn merge() -> Self {
        Self::of(UpdateArgs::Merge)
    }

    /// The items of the newcomer's arrays are added to the holder's arrays.
    #[must_use]
    pub const fn append() -> Self {
        Self::of(UpdateArgs::Append)
    }

    /// Moves the holder's scheduled time to the newcomer's (debounce), but never beyond `max_delay` after the holder
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

    const fn of(args: UpdateArgs) -> Self {
        Self { args, max_delay: None, max_items: None }
    }

    /// How the args change.
    #[must_use]
    pub const fn args(self) -> UpdateArgs {
        self.args
    }

    pub(crate) const fn max_delay(self) -> Option<Duration> {
        self.max_delay
    }

    /// The parameters as `_insert_batch` reads them: `append 60000000 1000`.
    pub(crate) fn parameters(self) -> String {
        let max_delay = self.max_delay.unwrap_or_default().as_micros();
        format!("{} {max_delay} {}", self.args, self.max_items.unwrap_or(Self::DEFAULT_MAX_ITEMS))
    }

    /// Reads the policy's member `update`.
    pub(crate) fn read(given: &Value) -> Result<Self> {
        const MEMBERS: [&str; 4] = ["args", "schedule", "max_delay", "max_items"];

        let Value::Object(members) = given else {
            return Err(invalid("update", format!("must be an object: {given}")));
        };
        if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            return Err(invalid("update", format!("unknown member: {unknown:?}")));
        }
        let args = text(members, "args", "update.args")?.map_or(Ok(UpdateArgs::Latest), str::parse)?;
        let is_pushed = match text(members, "schedule", "update.schedule")? {
            None | Some("keep") => false,
            Some("push") => true,
            Some(other) => return Err(invalid("update.schedule", format!("must be one of keep, push: {other:?}"))),
        };
        let max_delay = text(members, "max_delay", "update.max_delay")?.map(|given| match period::parse(given) {
            Err(Error::InvalidPeriod { problem, given }) => {
                Err(invalid("update.max_delay", format!("{problem}: {given:?}")))
            }
            parsed => parsed,
        });
        let max_delay = max_delay.transpose()?;
        let max_items = members.get("max_items").map(|given| {
            let count = given.as_u64().and_then(|count| u32::try_from(count).ok());
            count.filter(|count| (1..=MOST_ITEMS).contains(count)).ok_or_else(|| wrong_count(given))
        });
        let max_items = max_items.transpose()?;
        match (is_pushed, max_delay) {
            (true, None) => Err(invalid("update.schedule", "push needs max_delay: \"push\"")),
            (false, Some(length)) => {
                Err(invalid("update.max_delay", format!("needs schedule push: {:?}", period::write(length))))
            }
            _ => Ok(Self { args, max_delay, max_items }),
        }
    }

    /// Checks the parameters, with the holder's `period` if there is one.
    pub(crate) fn check(self, period: Option<Length>) -> Result<()> {
        if let Some(max_items) = self.max_items {
            require((1..=MOST_ITEMS).contains(&max_items), "update.max_items", || {
                format!("must be 1 to {MOST_ITEMS}: {max_items}")
            })?;
            require(self.args == UpdateArgs::Append, "update.max_items", || format!("needs args append: {max_items}"))?;
        }
        let Some(max_delay) = self.max_delay else { return Ok(()) };
        period::check(max_delay)?;
        let Some(period) = period else { return Ok(()) };
        // A month has 28 days at least.
        let (months, time) = period.parts();
        let shortest = time.saturating_add(Duration::from_secs(28 * 86_400 * u64::from(months)));
        require(shortest >= max_delay, "update.max_delay", || {
            format!("must not be longer than period: {} and {period}", period::write(max_delay))
        })
    }
}

impl Default for Update {
    fn default() -> Self {
        Self::latest()
    }
}

/// As the member `update` of a policy's document.
impl Serialize for Update {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = json!({"args": self.args});
        if let Some(max_delay) = self.max_delay {
            document["schedule"] = json!("push");
            document["max_delay"] = json!(period::write(max_delay));
        }
        if let Some(max_items) = self.max_items {
            document["max_items"] = json!(max_items);
        }
        document.serialize(serializer)
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str, field: &'static str) -> Result<Option<&'a str>> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(invalid(field, format!("must be a string: {other}"))),
    }
}

fn wrong_count(given: &Value) -> Error {
    invalid("update.max_items", format!("must be 1 to {MOST_ITEMS}: {given}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_update_reads_back() {
        for update in [
            Update::latest(),
            Update::merge().push(Duration::from_secs(60)),
            Update::append().max_items(10).push(Duration::from_millis(500)),
        ] {
            update.check(None).unwrap();
            assert_eq!(Update::read(&json!(update)).unwrap(), update);
        }
        assert_eq!(Update::default().parameters(), "latest 0 1000");
        assert_eq!(Update::append().max_items(5).push(Duration::from_secs(2)).parameters(), "append 2000000 5");
    }

    #[test]
    fn updates_that_can_never_work_are_refused() {
        assert!(Update::append().max_items(0).check(None).is_err());
        assert!(Update::latest().max_items(5).check(None).is_err());
        assert!(Update::latest().push(Duration::ZERO).check(None).is_err());
        let push = Update::latest().push(Duration::from_secs(60));
        assert!(push.check(Some(Duration::from_secs(59).into())).is_err());
        push.check(Some(Duration::from_secs(60).into())).unwrap();
        push.check(Some(Length::months(1))).unwrap();
    }
}

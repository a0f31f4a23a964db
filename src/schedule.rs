//! When periodic jobs run: cron expressions in a time zone, and intervals.
//!
//! A schedule maps a time to its next slot. This module reads no clock: the caller passes the
//! database's time.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::tz::TimeZone;
use time::OffsetDateTime;
use time::macros::datetime;
use uniqueue_policy::words;

use self::cron::Cron;
use crate::error::{Error, Result};
use crate::period;

mod cron;
mod day_field;
mod field;

words! {
    member "catch_up";

    /// The treatment of the slots of a periodic job that passed while no runner was alive.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum CatchUp {
        /// Skips them. A slot that is at most a minute late, and whose successor is not due yet, still
        /// runs: another runner takes over within seconds.
        Skip = "skip",
        /// Runs the latest of them, however late.
        #[default]
        Latest = "latest",
        /// Runs each of them, up to the latest 1,000.
        All = "all",
    }
}

/// How late a slot may be under [`CatchUp::Skip`].
const GRACE: Duration = Duration::from_secs(60);

/// The largest number of missed slots that are run.
const MAX_SLOTS: usize = 1_000;

/// The largest number of missed slots in one transaction.
const BATCH_SIZE: usize = 100;

/// The longest text of a schedule, in bytes. The table holds no longer one.
const LONGEST_TEXT: usize = 1_000;

/// A schedule, read from its text.
#[derive(Clone, Debug)]
pub(crate) enum Schedule {
    Cron { cron: Box<Cron>, zone: TimeZone },
    Every(Duration),
}

/// The slots to run now, and the next slot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DueSlots {
    pub(crate) slots: Vec<OffsetDateTime>,
    /// In the past if more slots are due now. `None` if the schedule has ended.
    pub(crate) next_at: Option<OffsetDateTime>,
}

impl Schedule {
    /// Reads a schedule: an ISO 8601 duration, or a cron expression in the time zone.
    pub(crate) fn read(text: &str, time_zone: &str) -> Result<Self> {
        let refused = |problem: String| Error::InvalidSchedule { problem, given: text.to_owned() };
        if text.len() > LONGEST_TEXT || time_zone.len() > LONGEST_TEXT {
            let start: String = text.chars().take(80).collect();
            let problem = format!("must not be longer than {LONGEST_TEXT} bytes");
            return Err(Error::InvalidSchedule { problem, given: format!("{start}…") });
        }
        let zone = TimeZone::get(time_zone).map_err(|_| Error::UnknownTimeZone { given: time_zone.to_owned() })?;
        if text.trim_start().starts_with(['P', 'p']) {
            let length =
                uniqueue_policy::exact(text).map_err(|error| refused(format!("interval: {}", error.reason)))?;
            // Slots are windows, so they begin at multiples of the length on every runner.
            if length.subsec_nanos() > 0 {
                return Err(refused("interval: must be whole seconds".to_owned()));
            }
            return Ok(Self::Every(length));
        }
        if text.trim().is_empty() {
            return Err(refused("must not be empty".to_owned()));
        }
        let cron = Cron::read(text).map_err(refused)?;
        let schedule = Self::Cron { cron: Box::new(cron), zone };
        // For example, 30 February.
        match schedule.next_after(datetime!(2025-01-01 0:00 UTC)) {
            Some(_) => Ok(schedule),
            None => Err(refused("it is never due".to_owned())),
        }
    }

    /// Returns the first slot after a time.
    pub(crate) fn next_after(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        match self {
            Self::Every(length) => period::window(at, *length).ok()?.end(),
            Self::Cron { cron, zone } => {
                OffsetDateTime::from_unix_timestamp(cron.next_after(at.unix_timestamp(), zone)?).ok()
            }
        }
    }

    /// Returns the last slot between two times.
    fn last_between(&self, after: OffsetDateTime, before: OffsetDateTime) -> Option<OffsetDateTime> {
        let has_slot_after = |second: i64| {
            let at = OffsetDateTime::from_unix_timestamp(second).ok();
            at.and_then(|at| self.next_after(at)).is_some_and(|slot| slot < before)
        };
        let (mut low, mut high) = (after.unix_timestamp(), before.unix_timestamp());
        if !has_slot_after(low) {
            return None;
        }
        // Back in steps that double, until the slot lies between `low` and `high`. Then the distance is halved.
        let mut step = 1;
        while high - step > low {
            if has_slot_after(high - step) {
                low = high - step;
                break;
            }
            high -= step;
            step *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if has_slot_after(middle) { low = middle } else { high = middle }
        }
        OffsetDateTime::from_unix_timestamp(low).ok().and_then(|low| self.next_after(low))
    }

    /// Returns the slots from `next_at` on that are due now. `next_at` itself counts as a slot, even if
    /// it is not one of the schedule's.
    pub(crate) fn due(&self, next_at: OffsetDateTime, now: OffsetDateTime, catch_up: CatchUp) -> DueSlots {
        if next_at > now {
            return DueSlots { slots: Vec::new(), next_at: Some(next_at) };
        }
        let limit = if catch_up == CatchUp::All { MAX_SLOTS } else { 1 };
        let mut slots = VecDeque::from([self.skip_ahead(next_at, now, limit)]);
        let mut next = self.next_after(slots[0]);
        while let Some(slot) = next.filter(|slot| *slot <= now) {
            if slots.len() == limit {
                slots.pop_front();
            }
            slots.push_back(slot);
            next = self.next_after(slot);
        }
        let mut slots = Vec::from(slots);
        if catch_up == CatchUp::Skip {
            slots.retain(|slot| now - *slot <= GRACE);
        }
        if slots.len() > BATCH_SIZE {
            next = Some(slots[BATCH_SIZE]);
            slots.truncate(BATCH_SIZE);
        }
        DueSlots { slots, next_at: next }
    }

    /// Returns the slot `limit` slots before now, or `next_at` if that is later. Starting there avoids
    /// a step for every second of a missed year.
    fn skip_ahead(&self, next_at: OffsetDateTime, now: OffsetDateTime, limit: usize) -> OffsetDateTime {
        let mut from = now;
        for _ in 0..=limit {
            match self.last_between(next_at, from) {
                Some(slot) => from = slot,
                None => return next_at,
            }
        }
        from
    }
}

#[cfg(test)]
mod clock_changes;

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str, zone: &str) -> Schedule {
        Schedule::read(text, zone).unwrap()
    }

    #[test]
    fn intervals_begin_at_multiples_of_their_length() {
        let quarter = Schedule::read("PT15M", "UTC").unwrap();
        assert_eq!(quarter.next_after(datetime!(2026-01-01 10:07 UTC)), Some(datetime!(2026-01-01 10:15 UTC)));
        assert_eq!(quarter.next_after(datetime!(2026-01-01 10:15 UTC)), Some(datetime!(2026-01-01 10:30 UTC)));
        let week = Schedule::read("P7D", "UTC").unwrap();
        assert_eq!(week.next_after(datetime!(2026-01-01 10:07 UTC)), Some(datetime!(2026-01-05 0:00 UTC)));
    }

    #[test]
    fn seconds_may_come_first_and_nicknames_are_known() {
        let second = cron("*/10 * * * * *", "UTC");
        assert_eq!(second.next_after(datetime!(2026-01-01 0:00:01.5 UTC)), Some(datetime!(2026-01-01 0:00:10 UTC)));
        assert_eq!(
            cron("@daily", "UTC").next_after(datetime!(2026-01-01 1:00 UTC)),
            Some(datetime!(2026-01-02 0:00 UTC))
        );
    }

    #[test]
    fn an_invalid_schedule_is_an_error_with_value_and_hint() {
        for (text, zone, expected) in [
            ("", "UTC", "invalid schedule: must not be empty: \"\""),
            ("every day", "UTC", "a cron expression has 5 or 6 fields, and this has 2: \"every day\""),
            (
                "61 * * * *",
                "UTC",
                "the minute must be 0 to 59, or a list, range or step of these, and is \"61\": \"61 *",
            ),
            ("0 24 * * *", "UTC", "the hour must be 0 to 23, "),
            ("0 0 0 32 * *", "UTC", "the day of the month must be 1 to 31, "),
            ("0 0 1 13 *", "UTC", "the month must be 1 to 12 or JAN to DEC, "),
            ("0 0 * * MOO", "UTC", "the day of the week must be 0 to 7 or SUN to SAT, "),
            ("*/0 * * * *", "UTC", "the minute must be 0 to 59, "),
            ("@sometimes", "UTC", "unknown nickname"),
            ("@reboot", "UTC", "unknown nickname"),
            (", * * * * *", "UTC", "the second must be 0 to 59, or a list, range or step of these, and is \",\""),
            ("* , * * *", "UTC", "the hour must be 0 to 23, "),
            ("0 0 , * *", "UTC", "the day of the month must be 1 to 31, "),
            ("0 0 * * ,", "UTC", "the day of the week must be 0 to 7 or SUN to SAT, "),
            ("0 0 L-31 * *", "UTC", "the day of the month must be 1 to 31, "),
            ("0 0 * * MON#6", "UTC", "the day of the week must be 0 to 7 or SUN to SAT, "),
            ("0 0 31 2,4,6 *", "UTC", "never due"),
            ("0 0 30 2 *", "UTC", "never due"),
            ("0 0 1 1 1 * 1999", "UTC", "a year cannot be given"),
            ("0 0 0 1 1 * 2099", "UTC", "a year cannot be given"),
            ("0 0 0 1 1 * *", "UTC", "a year cannot be given"),
            ("0 0 0 1 1 * * *", "UTC", "5 or 6 fields"),
            ("PT0S", "UTC", "\"PT0S\""),
            ("PT0.5S", "UTC", "\"PT0.5S\""),
            ("P1M", "UTC", "fixed length"),
            ("0 9 * * *", "Europe/Berln", "unknown time zone: \"Europe/Berln\""),
        ] {
            let error = Schedule::read(text, zone).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("hint: "), "{text}: {error}");
        }
    }

    #[test]
    fn a_schedule_costs_little_however_seldom_it_is_due() {
        let began = std::time::Instant::now();
        assert!(Schedule::read("0 0 30 2 *", "Europe/Berlin").is_err());
        // February has five Fridays in 2008, 2036, 2064, 2092 and, since 2100 is no leap year, 2104.
        let fifth = cron("0 0 * 2 FRI#5", "Europe/Berlin");
        assert_eq!(fifth.next_after(datetime!(2020-01-01 0:00 UTC)), Some(datetime!(2036-02-28 23:00 UTC)));
        assert_eq!(fifth.next_after(datetime!(2093-01-01 0:00 UTC)).map(OffsetDateTime::year), Some(2104));
        let long = "1,".repeat(LONGEST_TEXT) + "1 * * * *";
        let error = Schedule::read(&long, "UTC").unwrap_err().to_string();
        assert!(error.contains("must not be longer than 1000 bytes") && error.len() < 400, "{error}");
        let missed = cron("* * * 1 1 *", "Europe/Berlin");
        let due = missed.due(datetime!(2020-01-01 0:00 UTC), datetime!(2026-07-01 0:00 UTC), CatchUp::All);
        assert_eq!(due.slots.len(), BATCH_SIZE);
        // Far more than it takes, and far less than a search second by second.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn days_before_the_last_and_ranges_round_the_week_are_known() {
        let next = |text: &str, at| cron(text, "UTC").next_after(at);
        let feb = datetime!(2026-02-01 0:00 UTC);
        assert_eq!(next("0 0 L-3 * *", feb), Some(datetime!(2026-02-25 0:00 UTC)));
        assert_eq!(next("0 0 L * *", feb), Some(datetime!(2026-02-28 0:00 UTC)));
        assert_eq!(next("0 0 LW * *", feb), Some(datetime!(2026-02-27 0:00 UTC)));
        assert_eq!(next("@midnight", datetime!(2026-02-01 1:00 UTC)), Some(datetime!(2026-02-02 0:00 UTC)));
        assert_eq!(next("0/15 * * * *", datetime!(2026-02-01 1:16 UTC)), Some(datetime!(2026-02-01 1:30 UTC)));
        assert_eq!(next("0 22-6 * * *", datetime!(2026-02-01 6:30 UTC)), Some(datetime!(2026-02-01 22:00 UTC)));
        // 3 February 2026 is a Tuesday.
        assert_eq!(next("0 9 * * FRI-MON", datetime!(2026-02-03 0:00 UTC)), Some(datetime!(2026-02-06 9:00 UTC)));
    }

    #[test]
    fn an_invalid_interval_has_one_reason_and_one_hint() {
        for (text, problem) in [
            ("PT1.5S", "interval: must be whole seconds"),
            ("PX", "interval: is not a length of time"),
            ("P36526D", "interval: must not be longer than 100 years"),
        ] {
            let error = Schedule::read(text, "UTC").unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid schedule: {problem}: {text:?}; hint: ")), "{error}");
            assert_eq!(error.matches("hint: ").count(), 1, "{error}");
        }
    }

    #[test]
    fn each_catch_up_runs_its_own_slots() {
        let hourly = cron("0 * * * *", "UTC");
        let (missed, now) = (datetime!(2026-01-01 10:00 UTC), datetime!(2026-01-01 13:30 UTC));
        let hour = |hour: u8| missed.replace_hour(hour).unwrap();
        let next_at = Some(hour(14));
        assert_eq!(hourly.due(missed, now, CatchUp::Skip), DueSlots { slots: vec![], next_at });
        assert_eq!(hourly.due(missed, now, CatchUp::Latest), DueSlots { slots: vec![hour(13)], next_at });
        let all = DueSlots { slots: vec![hour(10), hour(11), hour(12), hour(13)], next_at };
        assert_eq!(hourly.due(missed, now, CatchUp::All), all);
        // Without missed slots they do the same.
        for catch_up in [CatchUp::Skip, CatchUp::Latest, CatchUp::All] {
            let soon = missed + time::Duration::seconds(5);
            assert_eq!(hourly.due(missed, soon, catch_up), DueSlots { slots: vec![missed], next_at: Some(hour(11)) });
            assert_eq!(hourly.due(missed, missed - GRACE, catch_up), DueSlots { slots: vec![], next_at: Some(missed) });
        }
    }

    #[test]
    fn a_year_of_missed_seconds_is_caught_up_in_bounded_steps() {
        for schedule in [cron("* * * * * *", "UTC"), Schedule::read("PT1S", "UTC").unwrap()] {
            let (mut next_at, now) = (datetime!(2025-01-01 0:00 UTC), datetime!(2026-01-01 0:00 UTC));
            let mut ran = Vec::new();
            while next_at <= now {
                let due = schedule.due(next_at, now, CatchUp::All);
                assert!(due.slots.len() <= BATCH_SIZE);
                ran.extend(due.slots);
                next_at = due.next_at.unwrap();
            }
            assert_eq!(ran.len(), MAX_SLOTS);
            assert_eq!(ran.last(), Some(&now));
            assert!(ran.windows(2).all(|pair| pair[1] - pair[0] == time::Duration::SECOND));
        }
    }

    #[test]
    fn a_slot_that_was_set_by_hand_runs_and_the_schedule_goes_on() {
        let daily = cron("0 9 * * *", "UTC");
        let by_hand = datetime!(2026-01-01 12:34:56 UTC);
        let due = daily.due(by_hand, by_hand, CatchUp::Skip);
        assert_eq!(due, DueSlots { slots: vec![by_hand], next_at: Some(datetime!(2026-01-02 9:00 UTC)) });
    }
}

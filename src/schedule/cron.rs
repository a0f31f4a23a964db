//! Cron expressions, and when they are due in a time zone.
//!
//! A zone's clock is a row of stretches with one offset from UTC each. In a stretch the clock and time run alike. Between
//! two stretches the clock is put forward, so that it skips times, or back, so that it repeats them. Vixie cron's rule
//! decides at both changes:
//! - An expression with a `*` or `*/n` in the seconds, minutes or hours *follows the clock*. It is due whenever the clock
//!   shows a time that it names: twice in a repeated hour, and not in a skipped one.
//! - Any other expression names *fixed times of the day*. Each is due once a day: a skipped time right after the gap, a
//!   repeated one the first time.
//!
//! Vixie cron's source looks for a `*` only at the start of a field, makes up for changes of at most three hours, and runs
//! each skipped time of its own. Here a `*` counts in any item of a list, a change may be of any length, and the skipped
//! times of one expression run once.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use time::Date;

use super::day_field::Days;
use super::field::{HOUR, MINUTE, SECOND};

/// How far ahead a slot is looked for. The fifth Friday of a February comes after up to 40 years.
const HORIZON: i64 = 50 * 366 * DAY;

const DAY: i64 = 86_400;

/// The nicknames, and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * SUN"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression.
#[derive(Clone, Debug)]
pub(crate) struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: Days,
    follows_clock: bool,
}

impl Cron {
    /// Reads five fields, or six with seconds in front, or a nickname. The error is the problem.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            nickname if nickname.starts_with('@') => {
                let known = NICKNAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(nickname));
                known.ok_or("unknown nickname, not one of @yearly, @monthly, @weekly, @daily, @midnight and @hourly")?.1
            }
            text => text,
        };
        let fields: Vec<_> = text.split_whitespace().collect();
        match fields[..] {
            [minute, hour, of_month, month, of_week] => {
                Self::of(["0", minute, hour], Days::read(of_month, month, of_week))
            }
            [second, minute, hour, of_month, month, of_week] => {
                Self::of([second, minute, hour], Days::read(of_month, month, of_week))
            }
            [_, _, _, _, _, _, _] => {
                Err("a year cannot be given: it takes five fields, or six with seconds in front".to_owned())
            }
            _ => Err(format!("a cron expression has 5 or 6 fields, and this has {}", fields.len())),
        }
    }

    fn of(time @ [second, minute, hour]: [&str; 3], days: Result<Days, String>) -> Result<Self, String> {
        let follows_clock = time.iter().any(|field| field.split(',').any(|item| item.starts_with('*')));
        let (seconds, minutes, hours) = (SECOND.read(second)?, MINUTE.read(minute)?, HOUR.read(hour)?);
        Ok(Self { seconds, minutes, hours, days: days?, follows_clock })
    }

    /// The first time after `after`, in seconds since 1970, at which the expression is due in a zone. `None`: there is none
    /// within 50 years.
    pub(super) fn next_after(&self, after: i64, zone: &TimeZone) -> Option<i64> {
        let (mut from, horizon) = (after.checked_add(1)?, after.checked_add(HORIZON)?);
        while from < horizon {
            let stretch = Stretch::at(from, zone)?;
            let ends_at = stretch.ends_at.min(horizon);
            let mut shown = from + stretch.offset;
            if !self.follows_clock
                && let Some(reached) = stretch.reached
            {
                // What the clock skipped is made up for at the begin, and what it shows again was due before.
                shown = if from == stretch.begins_at { reached } else { shown.max(reached) };
            }
            if let Some(found) = self.first_shown(shown, ends_at + stretch.offset) {
                return Some((found - stretch.offset).max(stretch.begins_at));
            }
            from = ends_at;
        }
        None
    }

    /// The first time that it names at or after `from` and before `end`, in seconds since 1970 as the clock shows them.
    fn first_shown(&self, from: i64, end: i64) -> Option<i64> {
        let (mut day, mut second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        while day * DAY < end {
            let date = date(day)?;
            if !self.days.has_month_of(date) {
                day += i64::from(date.month().length(date.year()) - date.day()) + 1;
            } else if let Some(found) = self.time_from(second).filter(|_| self.days.matches(date)) {
                return Some(day * DAY + found).filter(|found| *found < end);
            } else {
                day += 1;
            }
            second = 0;
        }
        None
    }

    /// The first second of a day that it names, at or after a second.
    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        let at = |hour: i64, minute: i64, second: i64| (hour * 60 + minute) * 60 + second;
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = next(self.seconds, second % 60)
            {
                return Some(at(hour, minute, second));
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return Some(at(hour, minute, next(self.seconds, 0)?));
            }
        }
        let hour = next(self.hours, hour + 1)?;
        Some(at(hour, next(self.minutes, 0)?, next(self.seconds, 0)?))
    }
}

/// The first value of a set that is not below another one.
fn next(set: u64, from: i64) -> Option<i64> {
    let left = set & u64::MAX << from;
    (left > 0).then(|| i64::from(left.trailing_zeros()))
}

/// The date of a day since 1970.
fn date(day: i64) -> Option<Date> {
    const JULIAN_DAY_OF_1970: i64 = 2_440_588;
    Date::from_julian_day(i32::try_from(day.checked_add(JULIAN_DAY_OF_1970)?).ok()?).ok()
}

/// A stretch of time in which the offset of a zone stays the same.
struct Stretch {
    begins_at: i64,
    ends_at: i64,
    offset: i64,
    /// The time that the clock would show at the begin if it had not been put forward or back. `None`: nothing was before.
    reached: Option<i64>,
}

impl Stretch {
    /// The stretch around a time.
    fn at(at: i64, zone: &TimeZone) -> Option<Self> {
        let moment = |second| Timestamp::from_second(second).ok();
        let offset_at = |second| Some(i64::from(zone.to_offset(moment(second)?).seconds()));
        let before = zone.preceding(moment(at + 1)?).next().map(|change| change.timestamp().as_second());
        let after = zone.following(moment(at)?).next().map(|change| change.timestamp().as_second());
        Some(Self {
            begins_at: before.unwrap_or(i64::MIN),
            ends_at: after.unwrap_or(i64::MAX),
            offset: offset_at(at)?,
            reached: before.and_then(|begin| Some(begin + offset_at(begin - 1)?)),
        })
    }
}

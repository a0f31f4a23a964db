//! The days of a cron expression: its day of the month, its month and its day of the week.

use time::{Date, Weekday};

use super::field::{DAY_OF_MONTH, DAY_OF_WEEK, MONTH, number};

/// The days on which a cron expression is due. If both the day of the month and the day of the week are given, a day
/// matches if one of them does.
#[derive(Clone, Debug)]
pub(super) struct Days {
    months: u64,
    /// `None`: every day.
    of_month: Option<DaysOfMonth>,
    of_week: Option<DaysOfWeek>,
}

#[derive(Clone, Debug, Default)]
struct DaysOfMonth {
    days: u64,
    /// Bit n: n days before the last one (`L`, `L-3`).
    before_last: u64,
    /// The days whose nearest weekday matches (`15W`).
    nearest_weekday: u64,
    /// `LW`.
    last_weekday: bool,
}

#[derive(Clone, Debug, Default)]
struct DaysOfWeek {
    days: u64,
    /// For each day of the week, bit n: its nth in the month (`MON#2`).
    nth: [u8; 7],
    /// The last of its kind in the month (`FRIL`).
    last: u64,
}

impl Days {
    /// Reads the three fields.
    pub(super) fn read(of_month: &str, month: &str, of_week: &str) -> Result<Self, String> {
        let is_any = |field| matches!(field, "*" | "?");
        Ok(Self {
            months: MONTH.read(month)?,
            of_month: if is_any(of_month) { None } else { Some(DaysOfMonth::read(of_month)?) },
            of_week: if is_any(of_week) { None } else { Some(DaysOfWeek::read(of_week)?) },
        })
    }

    /// Whether a day of the month of this date may match.
    pub(super) fn has_month_of(&self, date: Date) -> bool {
        self.months >> u8::from(date.month()) & 1 == 1
    }

    /// Whether a date matches.
    pub(super) fn matches(&self, date: Date) -> bool {
        self.has_month_of(date)
            && match (&self.of_month, &self.of_week) {
                (None, None) => true,
                (Some(of_month), None) => of_month.matches(date),
                (None, Some(of_week)) => of_week.matches(date),
                (Some(of_month), Some(of_week)) => of_month.matches(date) || of_week.matches(date),
            }
    }
}

impl DaysOfMonth {
    fn read(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        for item in text.split(',') {
            read.add(item).ok_or_else(|| DAY_OF_MONTH.problem(text))?;
        }
        Ok(read)
    }

    fn add(&mut self, item: &str) -> Option<()> {
        match item.to_ascii_uppercase().as_str() {
            "L" => self.before_last |= 1,
            "LW" => self.last_weekday = true,
            item => {
                if let Some(before) = item.strip_prefix("L-") {
                    self.before_last |= 1 << number(before).filter(|before| (1..=30).contains(before))?;
                } else if let Some(day) = item.strip_suffix('W') {
                    self.nearest_weekday |= 1 << DAY_OF_MONTH.value(day)?;
                } else {
                    self.days |= DAY_OF_MONTH.item(item)?;
                }
            }
        }
        Some(())
    }

    fn matches(&self, date: Date) -> bool {
        let (day, length) = (date.day(), date.month().length(date.year()));
        let is_last_weekday = || day == nearest_weekday(date, length, length);
        self.days >> day & 1 == 1
            || self.before_last >> (length - day) & 1 == 1
            || (self.last_weekday && is_last_weekday())
            // The nearest weekday is at most two days away.
            || (self.nearest_weekday > 0
                && (day.saturating_sub(2).max(1)..=(day + 2).min(length)).any(|wanted| {
                    self.nearest_weekday >> wanted & 1 == 1 && nearest_weekday(date, wanted, length) == day
                }))
    }
}

/// The weekday nearest to a day, in the month of a date.
fn nearest_weekday(date: Date, day: u8, length: u8) -> u8 {
    let of_day =
        (i32::from(date.weekday().number_days_from_sunday()) + i32::from(day) - i32::from(date.day())).rem_euclid(7);
    match of_day {
        6 if day > 1 => day - 1,
        6 => day + 2,
        0 if day < length => day + 1,
        0 => day - 2,
        _ => day,
    }
}

impl DaysOfWeek {
    fn read(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        for item in text.split(',') {
            read.add(item).ok_or_else(|| DAY_OF_WEEK.problem(text))?;
        }
        Ok(read)
    }

    fn add(&mut self, item: &str) -> Option<()> {
        let day = |text| DAY_OF_WEEK.value(text).map(|day| day % 7);
        if let Some((of_week, nth)) = item.split_once('#') {
            let nth = number(nth).filter(|nth| (1..=5).contains(nth))?;
            self.nth[day(of_week)? as usize] |= 1 << nth;
        } else if let Some(of_week) = item.strip_suffix(['L', 'l']) {
            self.last |= 1 << day(of_week)?;
        } else {
            self.days |= DAY_OF_WEEK.item(item)?;
        }
        Some(())
    }

    fn matches(&self, date: Date) -> bool {
        let (day, length) = (date.day(), date.month().length(date.year()));
        let of_week = Weekday::number_days_from_sunday(date.weekday());
        self.days >> of_week & 1 == 1
            || self.nth[usize::from(of_week)] >> day.div_ceil(7) & 1 == 1
            || (self.last >> of_week & 1 == 1 && day + 7 > length)
    }
}

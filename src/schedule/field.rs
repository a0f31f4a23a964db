//! A field of a cron expression: the set of values that it names.

/// A field: its name, its values in words, the lowest and the highest value, and what the values are called.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) values: &'static str,
    pub(super) lowest: u32,
    pub(super) highest: u32,
    names: &'static [&'static str],
}

pub(super) const SECOND: Field = Field::numbers("second", "0 to 59", 0, 59);
pub(super) const MINUTE: Field = Field::numbers("minute", "0 to 59", 0, 59);
pub(super) const HOUR: Field = Field::numbers("hour", "0 to 23", 0, 23);
pub(super) const DAY_OF_MONTH: Field = Field::numbers("day of the month", "1 to 31", 1, 31);
pub(super) const MONTH: Field = Field {
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    ..Field::numbers("month", "1 to 12 or JAN to DEC", 1, 12)
};
/// Sunday is 0. A text may also call it 7.
pub(super) const DAY_OF_WEEK: Field = Field {
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    ..Field::numbers("day of the week", "0 to 7 or SUN to SAT", 0, 6)
};

impl Field {
    const fn numbers(name: &'static str, values: &'static str, lowest: u32, highest: u32) -> Self {
        Self { name, values, lowest, highest, names: &[] }
    }

    /// Reads a list of items. Bit n of the answer stands for the value n.
    pub(super) fn read(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, item| Ok(set | self.item(item).ok_or_else(|| self.problem(text))?))
    }

    /// Why a text is not this field.
    pub(super) fn problem(&self, given: &str) -> String {
        let Self { name, values, .. } = self;
        format!("the {name} must be {values}, or a list, range or step of these, and is {given:?}")
    }

    /// Reads `*`, a value, a range, or one of these with a step: `*/15`, `0/15` (from 0 on), `8-18/2`.
    ///
    /// A range that ends before it begins goes on at the lowest value: `FRI-MON`, `22-6`.
    pub(super) fn item(&self, item: &str) -> Option<u64> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.lowest, self.highest),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => {
                let first = self.value(range)?;
                (first, if step.is_some() { self.highest } else { first })
            }
        };
        let count = self.highest - self.lowest + 1;
        // The 7 of a Sunday at the end of a range counts on.
        let length = if first <= last { last - first } else { last + count - first };
        let step = step.unwrap_or(1);
        if step == 0 || step > count {
            return None;
        }
        let values = (0..=length).step_by(step as usize).map(|place| {
            let value = first + place;
            self.lowest + (value - self.lowest) % count
        });
        Some(values.fold(0, |set, value| set | 1 << value))
    }

    /// Reads one value: a number or a name.
    pub(super) fn value(&self, text: &str) -> Option<u32> {
        if let Some(place) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Some(self.lowest + u32::try_from(place).ok()?);
        }
        let highest = if self.name == DAY_OF_WEEK.name { 7 } else { self.highest };
        number(text).filter(|value| (self.lowest..=highest).contains(value))
    }
}

/// Reads a number of one to three digits.
pub(super) fn number(text: &str) -> Option<u32> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(field: &Field, text: &str) -> Vec<u32> {
        let set = field.read(text).unwrap();
        (0..64).filter(|value| set >> value & 1 == 1).collect()
    }

    #[test]
    fn lists_ranges_and_steps_are_read() {
        assert_eq!(values(&HOUR, "2,14"), [2, 14]);
        assert_eq!(values(&HOUR, "8-18/5"), [8, 13, 18]);
        assert_eq!(values(&MINUTE, "*/20"), [0, 20, 40]);
        assert_eq!(values(&MINUTE, "0/15"), [0, 15, 30, 45]);
        assert_eq!(values(&MINUTE, "50/5"), [50, 55]);
        assert_eq!(values(&DAY_OF_MONTH, "1/10"), [1, 11, 21, 31]);
        assert_eq!(values(&MONTH, "jan,Jun-AUG"), [1, 6, 7, 8]);
        assert_eq!(values(&DAY_OF_WEEK, "*").len(), 7);
    }

    #[test]
    fn a_range_that_ends_before_it_begins_goes_round() {
        assert_eq!(values(&HOUR, "22-2"), [0, 1, 2, 22, 23]);
        assert_eq!(values(&HOUR, "22-6/3"), [1, 4, 22]);
        assert_eq!(values(&DAY_OF_WEEK, "FRI-MON"), [0, 1, 5, 6]);
        assert_eq!(values(&MONTH, "NOV-FEB"), [1, 2, 11, 12]);
        assert_eq!(values(&DAY_OF_MONTH, "30-2"), [1, 2, 30, 31]);
    }

    #[test]
    fn sunday_is_0_and_7() {
        assert_eq!(values(&DAY_OF_WEEK, "7"), [0]);
        assert_eq!(values(&DAY_OF_WEEK, "5-7"), [0, 5, 6]);
        assert_eq!(values(&DAY_OF_WEEK, "7-2"), [0, 1, 2]);
        assert_eq!(values(&DAY_OF_WEEK, "0-7").len(), 7);
        assert_eq!(values(&DAY_OF_WEEK, "SAT-SUN"), [0, 6]);
    }

    #[test]
    fn what_names_no_value_is_refused() {
        for text in [
            "", ",", "1,", ",1", "1,,2", "60", "-1", "1-", "-", "/", "/5", "*/0", "*/61", "*/", "1-2-3", "1/2/3", "+1",
            " 1", "0001", "٣", "**", "*,",
        ] {
            assert!(MINUTE.read(text).is_err(), "{text:?}");
        }
        assert!(DAY_OF_WEEK.read("8").is_err() && DAY_OF_WEEK.read("MONDAY").is_err());
    }
}

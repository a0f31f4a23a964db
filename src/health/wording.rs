//! Numbers, names and commands for people.

use std::time::Duration;

use crate::count::JobCount;
use crate::ident::SchemaName;
use crate::period::format_duration;

/// An age: `3s`, `12m 5s`, `5h 20m`, `3d`.
pub(super) fn age(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        // Fractions of a second are of no interest here.
        Ok(age) if age.as_secs() > 0 => format_duration(Duration::from_secs(age.as_secs())),
        _ => "under a second".to_owned(),
    }
}

/// A count with thousands separators, and its noun.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// A count with thousands separators.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A part of a whole, 0 to 1, in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A size.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let (mut size, mut unit) = (bytes / 1024, 0);
    while size >= 10_240 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1024, unit + 1);
    }
    format!("{} {}", thousands(size), UNITS[unit])
}

/// A number of jobs: `5,120 jobs`, `~537 k jobs`, `> 10 k jobs`.
pub(super) fn counted_jobs(count: JobCount) -> String {
    match count {
        JobCount::Exactly(1) => "1 job".to_owned(),
        JobCount::Exactly(number) => format!("{} jobs", thousands(number)),
        inexact => format!("{inexact} jobs"),
    }
}

/// A command of this library's CLI, for a schema.
pub(super) fn command(schema: &SchemaName, verb: &str, argument: &str) -> String {
    let of_schema = match *schema == SchemaName::default() {
        true => String::new(),
        false => format!(" --schema {schema}"),
    };
    match argument.starts_with('-') {
        // Otherwise it would be read as an option.
        true if verb.contains(" --") => format!("uniqueue {verb}={}{of_schema}", shell(argument)),
        true => format!("uniqueue {verb}{of_schema} -- {}", shell(argument)),
        false => format!("uniqueue {verb} {}{of_schema}", shell(argument)),
    }
}

/// A text as one word of a shell. Control characters are escaped as `$'…'`, which bash, zsh and ksh read.
pub(super) fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let escaped = text.chars().map(|character| match character {
        '\'' | '\\' => format!("\\{character}"),
        control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// A text from the database on one line: names in it may hold control characters.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_or_two_units() {
        let texts = [-1.0, 0.5, 3.9, 61.0, 599.0, 725.0, 7_200.0, 19_260.0, 90_000.0, 259_200.0].map(age);
        assert_eq!(
            texts,
            ["under a second", "under a second", "3s", "1m 1s", "9m 59s", "12m 5s", "2h", "5h 21m", "1d 1h", "3d"]
        );
    }

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(shell("default"), "default");
        assert_eq!(shell("a'; rm -rf ~"), r"'a'\''; rm -rf ~'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\u{1b}b'\\"), r"$'a\u001bb\'\\'");
        assert_eq!(plain("a\u{1b}[31mb\n"), "a [31mb ");
    }

    #[test]
    fn sizes_and_counts_are_short() {
        assert_eq!([0, 8 << 20, 64 << 20, 50 << 30].map(bytes), ["0 kB", "8,192 kB", "64 MB", "50 GB"]);
        assert_eq!(counted(1, "job", "jobs"), "1 job");
        assert_eq!(counted(12_345, "job", "jobs"), "12,345 jobs");
        assert_eq!(percent(0.256), "26 %");
    }
}

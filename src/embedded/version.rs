//! The version of a PostgreSQL server.

use std::fmt;

/// A version of PostgreSQL, such as `15.18`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Version {
    major: u16,
    minor: u16,
}

impl Version {
    /// The oldest major version that uniqueue works on.
    pub(super) const OLDEST_MAJOR: u16 = 14;

    /// The major version: 15 of `15.18`. Data directories are of one major version.
    pub fn major(self) -> u16 {
        self.major
    }

    /// The minor version: 18 of `15.18`, 0 of `19beta1`.
    pub fn minor(self) -> u16 {
        self.minor
    }

    /// Reads the output of `postgres --version`, such as `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    pub(super) fn of_output(output: &str) -> Option<Self> {
        let (_, numbers) = output.split_once("(PostgreSQL) ")?;
        let mut numbers = numbers.split(|character: char| !character.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = if output.contains(&format!("{major}.")) { numbers.next()?.parse().ok()? } else { 0 };
        Some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn version_is_read_from_the_output_of_postgres() {
        for (output, version) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some("15.18")),
            ("postgres (PostgreSQL) 18.4\n", Some("18.4")),
            ("postgres (PostgreSQL) 19beta1\n", Some("19.0")),
            ("postgres (PostgreSQL) 20devel\n", Some("20.0")),
            ("postgres (PostgreSQL) x\n", None),
            ("", None),
        ] {
            assert_eq!(Version::of_output(output).map(|version| version.to_string()).as_deref(), version, "{output}");
        }
    }
}

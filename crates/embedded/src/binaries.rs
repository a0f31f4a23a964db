//! Finding `initdb` and `postgres` on the machine, and their version.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fmt, fs, iter};

use super::error::{INSTALL_HINT, failure, failure_from};
use super::npm;
use super::user::ServerUser;
use crate::Result;

/// Where installers put their versions: the parent directory, the prefix of the name, and the rest of the path.
const PLACES: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/libexec", "postgresql", ""),
];

/// A directory with `initdb` and `postgres` that the server's user can run.
#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) directory: PathBuf,
    pub(super) version: Version,
}

impl Binaries {
    /// Searches in the order that the module's documentation gives.
    pub(super) fn find(user: ServerUser) -> Result<Self> {
        if let Some(directory) = env::var_os("PG_BINDIR").filter(|directory| !directory.is_empty()) {
            return Self::at(PathBuf::from(directory), "PG_BINDIR", user);
        }
        let places = PLACES.into_iter().flat_map(|(parent, name, rest)| newest_first(Path::new(parent), name, rest));
        let found = iter::once_with(configured).flatten().chain(places).chain(on_path()).find_map(|directory| {
            Self::at(directory, "found", user)
                .inspect_err(|why| tracing::debug!(%why, "skipped a directory without usable PostgreSQL binaries"))
                .ok()
        });
        if let Some(binaries) = found {
            return Ok(binaries);
        }
        let Some(directory) = npm::install(user)? else {
            return Err(failure("found no PostgreSQL on this machine, and no npm to fetch it with", INSTALL_HINT));
        };
        Self::at(directory, "npm", user)
    }

    /// Checks a directory. The error says what is wrong with it, and where its name came from.
    pub(super) fn at(directory: PathBuf, named_by: &str, user: ServerUser) -> Result<Self> {
        let shown = directory.display();
        if !holds_binaries(&directory) {
            return Err(failure(format!("{named_by} does not hold initdb and postgres: {shown}"), INSTALL_HINT));
        }
        // As the server's user, who may be denied directories that root can enter.
        let output = user.command(directory.join("postgres")).arg("--version").output().map_err(failure_from(
            format!("{named_by} holds a postgres that does not run: {shown}"),
            "check that it is for this machine, and that the server's user may read and enter every directory above it",
        ))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let Some(version) = Version::of_output(&printed) else {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(failure(
                format!("{named_by} holds a postgres that does not print its version: {shown}: {}", complaint.trim()),
                INSTALL_HINT,
            ));
        };
        if version.major() < Version::OLDEST_MAJOR {
            return Err(failure(
                format!("{named_by} holds PostgreSQL {version}: {shown}"),
                format!("uniqueue needs PostgreSQL {} or newer", Version::OLDEST_MAJOR),
            ));
        }
        Ok(Self { directory, version })
    }
}

fn holds_binaries(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file())
}

/// The directory that `pg_config` prints. On some systems it comes with the client's headers, and names a directory
/// without a server.
fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output().ok()?;
    let directory = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    holds_binaries(&directory).then_some(directory)
}

/// The directories `parent/name*/rest` that hold binaries, by the numbers in their names.
fn newest_first(parent: &Path, name: &str, rest: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut versions: Vec<_> = entries
        .filter_map(|entry| {
            let version = entry.file_name().into_string().ok()?.strip_prefix(name)?.to_owned();
            let directory: PathBuf = entry.path().join(rest).components().collect();
            holds_binaries(&directory).then(|| (numbers_in(&version), directory))
        })
        .collect();
    versions.sort_by_key(|(numbers, _)| Reverse(numbers.clone()));
    versions.into_iter().map(|(_, directory)| directory).collect()
}

/// The numbers in a name, so that 17 sorts above 9.6.
fn numbers_in(name: &str) -> Vec<u32> {
    name.split(|character: char| !character.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The directories of `initdb` on the `PATH`, through symbolic links: often `initdb` alone is linked.
fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<_> = env::split_paths(&path).collect();
    directories.into_iter().filter_map(|directory| {
        let initdb = directory.join("initdb").canonicalize().ok()?;
        let directory = initdb.parent()?.to_owned();
        holds_binaries(&directory).then_some(directory)
    })
}

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
    use super::{Reverse, numbers_in};

    #[test]
    fn newest_version_comes_first() {
        let mut names = ["postgresql", "postgresql@9.6", "postgresql@17", "postgresql@16.2"];
        names.sort_by_key(|name| Reverse(numbers_in(name)));
        assert_eq!(names, ["postgresql@17", "postgresql@16.2", "postgresql@9.6", "postgresql"]);
    }
}

#[cfg(test)]
mod version_tests {
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

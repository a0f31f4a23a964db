//! A data directory that is kept.

use std::fs::{self, File};
use std::path::PathBuf;

use super::binaries::Version;
use super::error::{failure, failure_from};
use super::user::ServerUser;
use crate::Result;

/// A data directory that is empty or holds a cluster, and that no other start uses.
#[derive(Debug)]
pub(super) struct DataDir {
    pub(super) path: PathBuf,
    major: Option<u16>,
    /// Held until the server runs, which then has PostgreSQL's own lock: without it two first starts would both
    /// run `initdb`. The system unlocks when the file is closed.
    _lock: File,
}

impl DataDir {
    /// Opens or makes the directory, and returns the user to run the server in it.
    pub(super) fn open(given: PathBuf, user: ServerUser) -> Result<(Self, ServerUser)> {
        let shown = given.display().to_string();
        let hint = "choose a directory that you can write to";
        let failed = |what: &str| failure_from(format!("cannot {what} the data directory: {shown}"), hint);

        fs::create_dir_all(&given).map_err(failed("make"))?;
        let path = given.canonicalize().map_err(failed("find"))?;
        let user = user.for_owner_of(&path).map_err(failed("open"))?;
        let lock = File::open(&path).and_then(|file| file.lock().map(|()| file)).map_err(failed("lock"))?;

        let mut entries = fs::read_dir(&path).map_err(failed("read"))?;
        let major = if entries.next().is_none() {
            user.adopt(&path).map_err(failed("change the mode of"))?;
            None
        } else {
            let version = fs::read_to_string(path.join("PG_VERSION")).map_err(failure_from(
                format!("the data directory is neither empty nor PostgreSQL's: {shown}"),
                "choose an empty directory, or one that does not exist yet",
            ))?;
            // "9.6" of old clusters is no whole number, and no supported server is of that version.
            Some(version.trim().parse().unwrap_or(0))
        };
        Ok((Self { path, major, _lock: lock }, user))
    }

    /// Refuses a server of another major version, which could not read the data, and one without write permission.
    pub(super) fn require(&self, server: Version, user: ServerUser) -> Result<()> {
        let shown = self.path.display();
        if let Some(major) = self.major.filter(|&major| major != server.major()) {
            return Err(failure(
                format!("the data directory is not of PostgreSQL {} but of {major}: {shown}", server.major()),
                format!("set PG_BINDIR to the binaries of PostgreSQL {major}, or choose another directory"),
            ));
        }
        if user.is_other() && !user.can_write_to(&self.path) {
            return Err(failure(
                format!("the server's user, who is not root, cannot write to the data directory: {shown}"),
                "choose a directory that all users can enter, not one below /root, and chown it if it was root's",
            ));
        }
        Ok(())
    }
}

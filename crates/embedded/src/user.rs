//! The operating system's user that the server runs as: PostgreSQL refuses root.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::{failure, failure_from};
use crate::Result;

/// The user that the server runs as.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServerUser {
    /// The user of this process, which is not root.
    Same,
    /// Another user, since this process runs as root.
    Other { uid: u32, gid: u32 },
}

impl ServerUser {
    /// This process's own user; for root `postgres`, else `nobody`.
    pub(super) fn detect() -> Result<Self> {
        if id("-u", None)? != 0 {
            return Ok(Self::Same);
        }
        // Every Unix has a user `nobody`. If it is missing, its error is returned.
        let name = if id("-u", Some("postgres")).is_ok() { "postgres" } else { "nobody" };
        Ok(Self::Other { uid: id("-u", Some(name))?, gid: id("-g", Some(name))? })
    }

    /// The owner of the directory, if this process is root and the owner is not.
    pub(super) fn for_owner_of(self, directory: &Path) -> io::Result<Self> {
        let owner = fs::metadata(directory)?;
        Ok(match self {
            Self::Other { .. } if owner.uid() != 0 => Self::Other { uid: owner.uid(), gid: owner.gid() },
            Self::Same | Self::Other { .. } => self,
        })
    }

    /// Whether this process is root and the server is not.
    pub(super) fn is_other(self) -> bool {
        matches!(self, Self::Other { .. })
    }

    /// A command that runs as the server's user, in a directory that every user may enter. It does not get the caller's
    /// `PG…` variables, which are meant for another server.
    pub(super) fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if let Self::Other { uid, gid } = self {
            // This drops the supplementary groups as well.
            command.uid(uid).gid(gid);
        }
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        // Error messages are parsed, so they have to be in English.
        command.current_dir("/").env("LC_ALL", "C");
        command
    }

    /// Gives an empty directory to the server's user, with mode 0700, which PostgreSQL requires.
    pub(super) fn adopt(self, directory: &Path) -> io::Result<()> {
        if let Self::Other { uid, gid } = self {
            chown(directory, Some(uid), Some(gid))?;
        }
        fs::set_permissions(directory, Permissions::from_mode(0o700))
    }

    /// Whether the server's user can write into a directory. It may not be able to enter a parent, such as `/root`.
    pub(super) fn can_write_to(self, directory: &Path) -> bool {
        let test = self.command("/bin/sh").args(["-c", "test -w \"$0\" && test -x \"$0\""]).arg(directory).status();
        test.is_ok_and(|status| status.success())
    }
}

/// Runs `id`, since the standard library has no such function and `libc` would need `unsafe`.
fn id(what: &str, user: Option<&str>) -> Result<u32> {
    let hint = "run as an ordinary user, or add a user named postgres";
    let name = user.unwrap_or("this process");
    let output = Command::new("id")
        .arg(what)
        .args(user)
        .stderr(Stdio::null())
        .output()
        .map_err(failure_from(format!("cannot run id to find the user's number: {name}"), hint))?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    number.map_err(|_| failure(format!("no such user: {name}"), hint))
}

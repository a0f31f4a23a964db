//! Running the bench.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tempfile::TempDir;
pub(crate) use test_support::server::{database, execute, texts};

/// A directory that every user can enter.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its mode");
    directory
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uniqueue-bench"));
    command.env_remove("DATABASE_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

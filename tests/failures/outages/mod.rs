//! Outages of the server: a failover to a standby, a full disk, and a damaged file.

mod disk;
mod standby;

use std::os::unix::fs::MetadataExt;

use crate::embedded::{Scratch, open_to_all};
use support::prelude::*;

/// Generous: a loaded machine takes its time.
const LONG: Duration = Duration::from_secs(90);

/// A directory that the server's user can write to, removed at the end.
fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    open_to_all(&scratch.0);
    scratch
}

/// The user and group that the server runs as.
fn user_of(server: &Postgres) -> (u32, u32) {
    let directory = fs::metadata(server.data_dir()).unwrap();
    (directory.uid(), directory.gid())
}

fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).is_ok_and(|process| process.uid() == 0)
}

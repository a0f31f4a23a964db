//! Running the bench.

use std::process::{Command, Stdio};

pub(crate) use test_support::by_url::{database, execute, texts};

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uniqueue-bench"));
    command.env_remove("DATABASE_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

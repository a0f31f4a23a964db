//! Has `perf record` record our runs while they are on the clock, and nothing else.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::failure::Failure;

/// The writing end of the FIFO of `perf record --control`, if any.
#[derive(Debug, Default)]
pub(crate) struct Profiler {
    control: Option<File>,
    /// Whether the run is one of ours.
    pub(crate) is_ours: bool,
}

impl Profiler {
    pub(crate) fn open(control: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| {
            OpenOptions::new().write(true).open(path).map_err(|error| {
                Failure::refused(
                    format!("cannot tell the profiler through {}: {error}", path.display()),
                    "give the FIFO that `perf record --control fifo:…` reads",
                )
            })
        };
        Ok(Self { control: control.map(open).transpose()?, is_ours: false })
    }

    /// The clock starts, or stops.
    pub(crate) fn tell(&mut self, is_running: bool) {
        let Some(control) = self.control.as_mut().filter(|_| self.is_ours) else { return };
        let order = if is_running { "enable\n" } else { "disable\n" };
        // A profiler that is gone is no reason to stop measuring.
        let _ = control.write_all(order.as_bytes());
    }
}

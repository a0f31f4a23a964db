//! The number that grows in a sweep, and the points at which it measures.

mod run;

use clap::ValueEnum;

/// The number that grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Sweep {
    /// jobs in the table, kept or waiting
    TableSize,
    /// runners, each a process
    Runners,
    /// queues that one runner works
    Queues,
    /// bytes of args
    ArgsSize,
    /// different unique keys among the inserts
    Keys,
}

impl Sweep {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TableSize => "table-size",
            Self::Runners => "runners",
            Self::Queues => "queues",
            Self::ArgsSize => "args-size",
            Self::Keys => "keys",
        }
    }

    const fn points(self) -> &'static [u32] {
        match self {
            Self::TableSize => &[10_000, 100_000, 1_000_000, 10_000_000],
            Self::Runners => &[1, 2, 4, 8, 16],
            Self::Queues => &[1, 10, 100, 1_000],
            Self::ArgsSize => &[100, 1_000, 10_000, 100_000],
            Self::Keys => &[1, 10, 100, 1_000, 10_000, 50_000],
        }
    }

    /// Jobs a run by default. Many runners are done with few jobs at once.
    const fn n(self) -> u64 {
        match self {
            Self::Runners => 200_000,
            Self::TableSize | Self::Queues | Self::ArgsSize | Self::Keys => 50_000,
        }
    }
}

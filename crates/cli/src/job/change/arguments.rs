//! The arguments of every change.

use clap::Args;
use uniqueue::JobId;

use crate::database::DatabaseArguments;
use crate::job::filter::FilterArguments;

/// The arguments of every change.
#[derive(Debug, Args)]
pub(in crate::job) struct ChangeArguments {
    /// The jobs to change
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<JobId>,

    #[command(flatten)]
    pub(super) filter: FilterArguments,

    /// Every job that the command can change
    #[arg(long, help_heading = "Which jobs", conflicts_with = "ids")]
    pub(super) all: bool,

    /// At most this many jobs, the oldest first
    #[arg(long, value_name = "N", help_heading = "Which jobs", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,

    /// Only print how many jobs match, and show some
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
}

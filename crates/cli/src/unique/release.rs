//! `uniqueue unique release`.

use serde::Serialize;
use uniqueue::{JobId, JobState};

use super::args::ReleaseArguments;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Answer};

/// What became of a claim.
#[derive(Debug, Serialize)]
struct Release {
    unique_key: String,
    /// The job that claimed the key.
    holder: Option<JobId>,
    holder_state: Option<JobState>,
    released: bool,
}

/// What is left when somebody interrupts it.
pub(super) fn left() -> String {
    "see with `uniqueue unique show` whether the claim was released".to_owned()
}

pub(super) async fn run(arguments: ReleaseArguments) -> Result<Verdict, Failure> {
    let ReleaseArguments { key, dry_run, yes, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let holder = database.client.holder(&key).await?;
    let mut release = Release {
        holder: holder.as_ref().map(|job| job.id),
        holder_state: holder.as_ref().map(|job| job.state),
        unique_key: key,
        released: false,
    };
    let mut is_refused = false;
    if let (Some(job), false) = (&holder, dry_run) {
        let question =
            format!("Let job {} ({}, {}) give up its claim?", job.id, output::plain(job.kind.as_str()), job.state);
        match if yes { Answer::Yes } else { output::ask(&question)? } {
            Answer::Yes => {
                let released = database.client.release_claim(&release.unique_key).await?;
                release.released = released.is_some();
                // Another job may have taken the key meanwhile: it is that one's claim that is gone.
                release.holder = released.or(release.holder);
            }
            Answer::No => is_refused = true,
            Answer::Nobody => {
                return Err(Failure::refused("there is nobody to ask", "give --yes, or --dry-run to look first"));
            }
        }
    }
    database.close().await?;
    if queue.json {
        output::print_json(&release)?;
    } else {
        output::print(&format!("{}\n", text(&release, is_refused)))?;
    }
    let is_done = release.released || (dry_run && release.holder.is_some());
    Ok(if is_done { Verdict::Fine } else { Verdict::NotFine })
}

fn text(release: &Release, is_refused: bool) -> String {
    let Release { unique_key, holder, holder_state, released } = release;
    let key = output::plain(unique_key);
    match (holder, holder_state) {
        (Some(holder), _) if *released => format!("job {holder} gave up its claim on {key}"),
        _ if is_refused => "nothing was changed".to_owned(),
        (Some(holder), Some(state)) => format!("job {holder} ({state}) claims {key}"),
        _ => format!("nobody claims {key}"),
    }
}

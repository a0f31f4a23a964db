//! `uniqueue unique release`.

use crate::prelude::*;

/// Release a key from the job that claims it, for good.
///
/// The job goes on, and the next insert with the key is no duplicate, so two jobs with the same key may run at once. The
/// command asks for confirmation.
///
/// Examples:
///   uniqueue unique release rebuild_index --dry-run
///   uniqueue unique release rebuild_index --yes
///
/// Exit codes:
///   0    released; with --dry-run, a job claims the key
///   1    no job claims the key, or the answer was no
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ReleaseArguments {
    /// The key in full; a key that begins with a dash comes last, after --
    #[arg(value_parser = unique_key)]
    key: String,

    /// Only print which job claims the key
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// The outcome for a claim.
#[derive(Debug, Serialize)]
struct Release {
    unique_key: String,
    /// The job that claims the key, or claimed it.
    holder: Option<JobId>,
    holder_state: Option<JobState>,
    released: bool,
}

/// The state that an interrupted release leaves.
pub(super) fn left() -> String {
    "the claim may have been released; check with `uniqueue unique show`".to_owned()
}

pub(super) async fn release(client: &Client, form: Form, arguments: ReleaseArguments) -> Result<Answer, Failure> {
    let ReleaseArguments { key, dry_run, yes } = arguments;
    let holder = client.holder(&key).await?;
    let mut release = Release {
        holder: holder.as_ref().map(|job| job.id),
        holder_state: holder.as_ref().map(|job| job.state),
        unique_key: key,
        released: false,
    };
    let mut is_refused = false;
    if let (Some(job), false) = (&holder, dry_run) {
        let (kind, schema) = (output::printable(job.kind.as_str()), client.schema());
        let question = format!("Release the claim of job {} ({kind}, {}) in schema {schema}?", job.id, job.state);
        is_refused = !yes && !output::confirm(&question, "the change")?;
        if !is_refused {
            let released = client.release_claim(&release.unique_key).actor(own_name()).await?;
            release.released = released.is_some();
            // Another job may have taken the key meanwhile. Then its claim was released.
            release.holder = released.or(release.holder);
        }
    }
    let is_done = release.released || (dry_run && release.holder.is_some());
    let verdict = if is_done { Verdict::Fine } else { Verdict::NotFine };
    Ok(form.message(&release, format!("{}\n", text(&release, is_refused)))?.verdict(verdict))
}

fn text(release: &Release, is_refused: bool) -> String {
    let Release { unique_key, holder, holder_state, released } = release;
    let key = output::printable(unique_key);
    match (holder, holder_state) {
        (Some(holder), _) if *released => format!("job {holder} gave up its claim on {key}"),
        _ if is_refused => "nothing was changed".to_owned(),
        (Some(holder), Some(state)) => format!("job {holder} ({state}) claims {key}"),
        _ => format!("no job claims {key}"),
    }
}

//! `uniqueue kind`: what the database knows of kinds.

use uniqueue_admin::KindRow;

use crate::prelude::*;

/// List, show and remove registered kinds.
///
/// A runner registers the kinds of its workers when it starts. `uniqueue job insert`, the dashboard and inserts in SQL take
/// from the kind what they do not say themselves: its queue, its priority, its attempts and its policies.
///
/// Examples:
///   uniqueue kind list
///   uniqueue kind show email.send
///   uniqueue kind remove email.send
///
/// Exit codes:
///   1    the kind is not registered
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct KindArguments {
    #[command(subcommand)]
    command: KindCommand,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Subcommand)]
enum KindCommand {
    /// List the registered kinds, by name.
    ///
    /// ***
    ///
    /// With --json it prints one kind a line, with its policies as `insert_job` takes them.
    ///
    /// Examples:
    ///   uniqueue kind list
    ///   uniqueue kind list --json | jq -r 'select(.unique_policy) | .name'
    #[command(verbatim_doc_comment)]
    List,

    /// Show what is registered of a kind, with its policies in words.
    ///
    /// ***
    ///
    /// With --json it prints the kind as `kind list` does.
    ///
    /// Examples:
    ///   uniqueue kind show email.send
    ///   uniqueue kind show email.send --json | jq .unique_policy
    ///
    /// Exit codes:
    ///   1    the kind is not registered
    #[command(verbatim_doc_comment)]
    Show(NameArguments),

    /// Remove what is registered of a kind; its jobs stay.
    ///
    /// Inserts by SQL that name the kind then get the defaults of every kind. The next start of a runner with a worker for the
    /// kind registers it again.
    ///
    /// ***
    ///
    /// With --json it prints {"name", "is": "removed"}.
    ///
    /// Examples:
    ///   uniqueue kind remove email.send
    ///
    /// Exit codes:
    ///   1    the kind is not registered
    #[command(verbatim_doc_comment)]
    Remove(NameArguments),
}

/// The kind that a command is about.
#[derive(Debug, Args)]
struct NameArguments {
    /// The kind
    #[arg(value_name = "KIND")]
    kind: String,
}

/// Runs a command about kinds.
pub(crate) async fn run(KindArguments { command, database }: KindArguments) -> Result<Verdict, Failure> {
    match command {
        KindCommand::List => ask_each(&database, list).await,
        KindCommand::Show(of) => ask(&database, async |client, form| show(client, form, &of.kind).await).await,
        KindCommand::Remove(of) => ask(&database, async |client, form| remove(client, form, &of.kind).await).await,
    }
}

async fn list(client: Client, form: Form) -> Result<Answer, Failure> {
    let kinds = Admin::new(&client).kinds().await?;
    let now = client.database_time().await?;
    form.list(&kinds, |kinds| table(kinds, now))
}

fn table(kinds: &[KindRow], now: OffsetDateTime) -> Table {
    List::of(kinds)
        .column(Column::long("kind"), |kind| &kind.name)
        .column(Column::long("queue").optional(), |kind| kind.queue.as_ref().map_or("", AsRef::as_ref))
        .column(Column::number("priority").optional(), |kind| {
            kind.priority.map_or_else(String::new, |own| own.to_string())
        })
        .column(Column::number("attempts").optional(), |kind| {
            kind.max_attempts.map_or_else(String::new, |own| own.to_string())
        })
        .column(Column::long("unique").optional(), |kind| kind.unique_in_words().unwrap_or_default())
        .column(Column::long("group").optional(), |kind| {
            kind.group_policy.as_ref().and_then(|_| kind.group_in_words()).unwrap_or_default()
        })
        .column(Column::text("registered"), |kind| format_relative(kind.registered_at, now))
        .column(Column::long("by").optional(), |kind| &kind.registered_by)
        .table()
}

async fn show(client: &Client, form: Form, name: &str) -> Result<Answer, Failure> {
    let Some(kind) = Admin::new(client).kind(name).await? else { return Ok(unknown(name)) };
    let now = client.database_time().await?;
    form.object(&kind, |kind| format!("{}\n", record(kind, now).draw()))
}

fn record(kind: &KindRow, now: OffsetDateTime) -> Record {
    let mut record = Record::new();
    record.field("kind", kind.name.to_string());
    for (name, value) in kind.taken() {
        record.field(name, value);
        let policy = match name {
            "unique" => &kind.unique_policy,
            "group" => &kind.group_policy,
            _ => &None,
        };
        record.optional_field("its policy", policy.as_ref().map(ToString::to_string));
    }
    record.field("registered", format!("{} by {}", format_relative(kind.registered_at, now), kind.registered_by));
    record.field("changed", format_relative(kind.changed_at, now));
    record
}

async fn remove(client: &Client, form: Form, name: &str) -> Result<Answer, Failure> {
    if !Admin::new(client).remove_kind(name).await? {
        return Ok(unknown(name));
    }
    let text = format!("kind {} is removed; its jobs stay\n", printable(name));
    form.message(&json!({ "name": name, "is": "removed" }), text)
}

fn unknown(name: &str) -> Answer {
    Answer::not_fine(format!("kind {name:?} is not registered; `uniqueue kind list` lists the registered kinds"))
}

//! `uniqueue top`.
//!
//! ```text
//! terminal: keys (a thread) ────────────┐
//! poll: snapshots and changes ──────────┼──▶ the loop: state ──▶ draw ──▶ terminal
//! a tick that redraws the age ──────────┘
//! ```
//!
//! The loop waits for nothing else, so keys work at once even if the database is slow, and the screen shows how old its
//! numbers are. The terminal is restored at every end: q, a signal, an error, a panic.

mod draw;
#[cfg(test)]
mod incident;
mod keys;
mod lists;
mod poll;
mod state;
#[cfg(test)]
mod svg;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::draw::{Palette, draw};
use self::keys::Effect;
use self::state::{Retry, State, Update};
use self::terminal::{Screen, TerminalEvent, read_events};
use crate::arguments::DurationArgument;
use crate::database::{Database, DatabaseArguments};
use crate::exit::{Failure, Verdict};
use crate::output;

/// The shortest interval between two snapshots.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// How often the age of the numbers is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// How long a running action and the connections may take to end after q.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Shows the screen until the user quits.
pub(crate) async fn run(arguments: TopArguments) -> Result<Verdict, Failure> {
    if arguments.database.json || !Screen::is_possible() {
        let problem = match arguments.database.json {
            true => "top draws on a terminal, and has no JSON",
            false => "top draws on a terminal, and there is none to draw on",
        };
        return Err(Failure::refused(
            problem,
            "for a pipe or a file: `uniqueue stats --watch 5`, with --json for machines; `uniqueue queue list --json`",
        ));
    }
    let period = arguments.interval.0.max(MIN_INTERVAL);
    let database = Database::open_migrated(&arguments.database).await?;
    let client = database.client.clone();
    let mut state = State::new(format!("schema {}", client.schema()), period);

    let (tasks, ended) = (TaskTracker::new(), CancellationToken::new());
    let (updates, mut received) = mpsc::channel(16);
    tasks.spawn(poll::poll(client.clone(), period, updates.clone(), ended.clone()));
    let (events, mut pressed) = mpsc::channel(64);
    let mut screen = Screen::open()?;
    read_events(events, ended.clone());
    // Dropping this future ends the thread and the tasks as well.
    let _ending = ended.clone().drop_guard();
    let palette = Palette { has_colors: output::has_colors() };
    let mut tick = interval(TICK);
    loop {
        screen.draw(|frame| draw(frame, &state, Instant::now(), palette))?;
        tokio::select! {
            event = pressed.recv() => match event {
                Some(TerminalEvent::Key(key)) => match state.press(key) {
                    Effect::Redraw => {}
                    Effect::Quit => break,
                    Effect::Run(action) => {
                        tasks.spawn(poll::act(client.clone(), action, updates.clone()));
                    }
                },
                Some(TerminalEvent::Resize) => {}
                // The terminal is gone.
                None => break,
            },
            update = received.recv() => match update {
                Some(update) => state.apply(update, Instant::now()),
                None => break,
            },
            _ = tick.tick() => state.tick(Instant::now()),
        }
    }
    drop(screen);
    ended.cancel();
    tasks.close();
    let _ = tokio::time::timeout(QUIT_TIMEOUT, tasks.wait()).await;
    while let Ok(update) = received.try_recv() {
        if matches!(update, Update::RetryProgress(_) | Update::RetryDone(_)) {
            state.apply(update, Instant::now());
        }
    }
    if let Some(retry) = &state.retry {
        report_unfinished(retry, client.schema().as_str());
    }
    let _ = tokio::time::timeout(QUIT_TIMEOUT, database.close()).await;
    Ok(Verdict::Fine)
}

fn report_unfinished(Retry { kind, retried }: &Retry, schema: &str) {
    output::print_to_stderr(&format!(
        "quit during a retry that made {} of kind {} available again: \
         `uniqueue job retry --kind={} --schema={}` retries the rest",
        output::counted(*retried, "job"),
        output::printable(kind),
        output::shell_word(kind),
        output::shell_word(schema)
    ));
}

/// Watch queues, running jobs, failing kinds, keys, waiting inserts and groups live.
///
/// The screen is redrawn for each new snapshot and shows how old it is. Keys work at once, even if the database is slow. The
/// cost of a snapshot is bounded, whatever the size of the tables. Press ? for the list of keys: they inspect, cancel and
/// retry jobs, and pause and resume queues. Each change asks for confirmation. The column `held up` counts the groups of a queue
/// whose first job waits for others or for a limit. The list of groups (6) says what holds each up, and how long.
///
/// Examples:
///   uniqueue top --database-url postgres://localhost/app
///   uniqueue top --interval 5s --schema jobs
///
/// Exit codes:
///   0    ended with q or Ctrl-C
///   130  interrupted by SIGTERM
#[derive(Debug, Args)]
// --json is hidden. Its error names the alternatives.
#[command(verbatim_doc_comment, mut_arg("json", |json| json.hide(true)))]
pub(crate) struct TopArguments {
    /// The time between two snapshots; at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(super) interval: DurationArgument,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
}

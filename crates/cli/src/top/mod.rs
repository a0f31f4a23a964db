//! `uniqueue top`.
//!
//! ```text
//! keys (a thread of their own) ──┐
//! looks and actions (tasks) ─────┼──▶ the loop: state ──▶ draw ──▶ terminal
//! a clock, for how old it is ────┘
//! ```
//!
//! The loop waits for nothing but these: whatever the database does, keys are answered at once, and the screen says how
//! old its numbers are. The terminal is given back as it was on every way out: q, a signal, an error, a panic.

mod args;
mod draw;
mod look;
mod over;
#[cfg(test)]
mod picture;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::args::TopArguments;

use self::draw::{Palette, draw};
use self::look::{News, act, watch};
use self::screen::{Heard, Screen, listen};
use self::state::{Over, Reply, Retry, State};
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output;

/// How often at the most.
const SHORTEST: Duration = Duration::from_millis(100);

/// How often the age of the numbers is drawn anew.
const TICK: Duration = Duration::from_millis(250);

/// Watches until somebody quits.
pub(crate) async fn run(arguments: TopArguments) -> Result<Verdict, Failure> {
    if arguments.queue.json || !Screen::is_possible() {
        let problem = match arguments.queue.json {
            true => "top draws on a terminal, and has no JSON",
            false => "top draws on a terminal, and there is none to draw on",
        };
        return Err(Failure::refused(
            problem,
            "for a pipe or a file: `uniqueue stats --watch 5`, with --json for machines; `uniqueue queue list --json`",
        ));
    }
    let period = arguments.interval.0.max(SHORTEST);
    let database = Database::open_migrated(&arguments.queue).await?;
    let client = database.client.clone();
    let title = format!("schema {}", client.schema());
    let (tasks, ended) = (TaskTracker::new(), CancellationToken::new());
    let (news, mut heard) = mpsc::channel(16);
    tasks.spawn(watch(client.clone(), period, news.clone(), ended.clone()));
    let (keys, mut pressed) = mpsc::channel(64);
    let mut screen = Screen::open()?;
    listen(keys, ended.clone());
    // Whatever drops this future ends the thread and the tasks as well.
    let _ending = ended.clone().drop_guard();
    let palette = Palette { has_colors: output::has_colors() };
    let mut state = State::new(title, period);
    let mut tick = interval(TICK);
    loop {
        screen.draw(|frame| draw(frame, &state, Instant::now(), palette))?;
        tokio::select! {
            key = pressed.recv() => match key {
                Some(Heard::Key(key)) => match state.press(key) {
                    Reply::Draw => {}
                    Reply::Quit => break,
                    Reply::Do(action) => {
                        tasks.spawn(act(client.clone(), action, news.clone()));
                    }
                },
                Some(Heard::Resize) => {}
                // The terminal is gone.
                None => break,
            },
            said = heard.recv() => match said {
                Some(News::Seen(snapshot)) => state.see(*snapshot, Instant::now()),
                Some(News::Trouble(trouble)) => state.trouble = Some(trouble),
                Some(News::Done(done)) => state.notice = Some(done),
                Some(News::Retrying(so_far)) => state.see_retry(so_far),
                Some(News::Retried(done)) => {
                    state.retry = None;
                    state.notice = Some(done);
                }
                Some(News::Text { title, lines }) => state.over = Over::Text { title, lines, scroll: 0 },
                None => break,
            },
            _ = tick.tick() => {}
        }
    }
    drop(screen);
    ended.cancel();
    tasks.close();
    // An action that is under way is given a moment; a database that is silent is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(1), tasks.wait()).await;
    while let Ok(said) = heard.try_recv() {
        match said {
            News::Retrying(so_far) => state.see_retry(so_far),
            News::Retried(_) => state.retry = None,
            News::Seen(_) | News::Trouble(_) | News::Done(_) | News::Text { .. } => {}
        }
    }
    if let Some(Retry { kind, so_far }) = &state.retry {
        output::tell(&format!(
            "quit in the middle of a retry, with {} of kind {} available again: \
             `uniqueue job retry --kind={} --schema={}` does the rest",
            output::count(*so_far),
            output::plain(kind),
            output::shell(kind),
            output::shell(client.schema().as_str())
        ));
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), database.close()).await;
    Ok(Verdict::Fine)
}

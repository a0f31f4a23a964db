//! Counts the statements that sqlx sends, by the events it logs.

use std::cell::Cell;

use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Filter};

use super::seen;

thread_local! {
    static SENT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a future on this test's own thread and counts the statements it sent.
pub async fn counting_statements<T>(future: impl Future<Output = T>) -> (T, u64) {
    seen::install();
    let before = SENT.get();
    let answer = future.await;
    (answer, SENT.get() - before)
}

/// Counts each thread's statements.
pub struct Counter;

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        SENT.set(SENT.get() + 1);
    }
}

/// What the counter wants to see.
pub fn statements<S>() -> impl Filter<S> {
    filter_fn(|metadata| metadata.target() == "sqlx::query")
}

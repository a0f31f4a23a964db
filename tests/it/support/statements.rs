//! Counts the statements that sqlx sends, by the events it logs.

use std::cell::Cell;
use std::sync::Once;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static SENT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a future on this test's own thread and counts the statements it sent.
pub async fn counting_statements<T>(future: impl Future<Output = T>) -> (T, u64) {
    static INSTALL: Once = Once::new();
    // One subscriber for all threads, since those that come and go race for the callsites.
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Counter).expect("the only subscriber"));
    let before = SENT.get();
    let answer = future.await;
    (answer, SENT.get() - before)
}

struct Counter;

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        SENT.set(SENT.get() + 1);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

//! The statements that sqlx sends, by the events it logs.

use std::cell::RefCell;
use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Filter};

use super::seen;

thread_local! {
    static SENT: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs a future on this test's own thread and answers with the statements it sent.
pub async fn statements_of<T>(future: impl Future<Output = T>) -> (T, Vec<String>) {
    seen::install();
    SENT.take();
    let answer = future.await;
    (answer, SENT.take())
}

/// Runs a future on this test's own thread and counts the statements it sent.
pub async fn counting_statements<T>(future: impl Future<Output = T>) -> (T, u64) {
    let (answer, statements) = statements_of(future).await;
    (answer, statements.len() as u64)
}

/// Keeps each thread's statements.
pub(crate) struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut statement = Statement::default();
        event.record(&mut statement);
        SENT.with_borrow_mut(|sent| sent.push(statement.0));
    }
}

/// The text of a statement: in a field of its own, or, where it is short, in the summary.
#[derive(Default)]
struct Statement(String);

impl Visit for Statement {
    fn record_str(&mut self, field: &Field, value: &str) {
        if matches!(field.name(), "summary" | "db.statement") && !value.is_empty() {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// What the keeper wants to see.
pub(crate) fn statements<S>() -> impl Filter<S> {
    filter_fn(|metadata| metadata.target() == "sqlx::query")
}

//! Keeps the statements that sqlx sends, by the events it logs.

use std::cell::RefCell;
use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Filter};

thread_local! {
    static SENT: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the statements that this thread sent since the last call.
pub(crate) fn take() -> Vec<String> {
    SENT.take()
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

//! Writes the library's log to standard error in processes that set it up.

use std::fmt::{Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Logs this process's events of the library, each line behind a name.
pub fn log_as(name: &str) {
    tracing::subscriber::set_global_default(Log { name: name.to_owned() }).expect("the only subscriber");
}

struct Log {
    name: String,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("uniqueue") && metadata.level() <= &Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        eprintln!("{} {at:?} {}{}", self.name, event.metadata().level(), line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

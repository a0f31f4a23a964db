//! Panics of workers.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use super::verdict::Work;
use crate::worker;

/// Runs the work, and makes an error of a panic.
pub(super) async fn catching(mut work: worker::Work<'_>) -> Work {
    poll_fn(move |context| {
        // After a panic the future is dropped and never polled again.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(poll) => poll.map(Work::Returned),
            Err(panic) => Poll::Ready(Work::Returned(Err(panic_text(panic.as_ref()).into()))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    match message {
        Some(message) => format!("panicked: {message}"),
        None => "panicked".to_owned(),
    }
}

//! Panics of workers: each is an error of its job, with its message and its place.
//!
//! Other code of the application that is called for a job is caught as well: its errors, its retry policies. Such a panic
//! would unwind through the results, which are sent when they are dropped, and two panics at once end the process.
//!
//! Only a panic hook learns the place. This one is put before the application's own, which it
//! always calls, and remembers a panic only on a thread that is polling a worker. Tasks that a worker spawns are not
//! watched. An application that replaces the hook later, without calling this one, loses the places and nothing else.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

use crate::words::retry::RetryPolicy;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<SeenPanic>> = const { RefCell::new(None) };
}

/// A panic as the hook saw it.
struct SeenPanic {
    place: String,
    message: Option<String>,
}

/// Installs the hook, once a process.
pub(crate) fn remember_places() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| std::panic::set_hook(before(std::panic::take_hook())));
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The hook that remembers, before another.
fn before(previous: Hook) -> Hook {
    Box::new(move |info| {
        if IS_WATCHED.get() {
            remember(info);
        }
        previous(info);
    })
}

fn remember(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let seen = SeenPanic { place, message: message(info.payload()) };
    // A thread that is about to end remembers nothing more.
    let _ = LAST.try_with(|last| last.replace(Some(seen)));
}

/// Runs a part of a worker. A panic in it is an error with its text.
pub(crate) fn catch<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    let _watch = Watch::begin();
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| text(panic.as_ref()))
}

/// Polls a future of a worker to its end. A panic in it is an error with its text.
pub(crate) async fn catching<T>(mut work: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Result<T, String> {
    // After a panic the future is dropped and never polled again.
    poll_fn(move |context| match catch(|| work.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// How long a job waits after an attempt, as the policy says: that may be the application's code as well. The default
/// policy stands in for one that panics.
pub(crate) fn wait_after(policy: RetryPolicy, attempt: u16) -> Duration {
    catch(|| policy.wait_after(attempt)).unwrap_or_else(|panic| {
        tracing::error!(attempt, panic, "a retry policy panicked: the default one is used");
        RetryPolicy::default().wait_after(attempt)
    })
}

/// Watches the thread. One worker can be polled inside another: only the outermost ends the watch.
struct Watch {
    was_watched: bool,
}

impl Watch {
    fn begin() -> Self {
        LAST.take();
        Self { was_watched: IS_WATCHED.replace(true) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        IS_WATCHED.set(self.was_watched);
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let message = message(panic);
    // A panic that goes on from elsewhere (`resume_unwind`) comes without the hook: what the hook
    // saw last is then another's place.
    let place = LAST.take().filter(|seen| seen.message == message).map(|seen| seen.place);
    match (place, message) {
        (Some(place), Some(message)) => format!("panicked at {place}: {message}"),
        (Some(place), None) => format!("panicked at {place}"),
        (None, Some(message)) => format!("panicked: {message}"),
        (None, None) => "panicked".to_owned(),
    }
}

fn message(panic: &(dyn Any + Send)) -> Option<String> {
    panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn text_of(part: fn()) -> String {
        remember_places();
        catch(part).unwrap_err()
    }

    #[test]
    fn a_panic_keeps_its_message_and_its_place() {
        let line = line!() + 1;
        let text = text_of(|| panic!("unlucky {}", 13));
        assert_eq!(text, format!("panicked at {}:{line}:31: unlucky 13", file!()));
        assert!(text_of(|| std::panic::panic_any(7)).starts_with("panicked at src/worker/panics.rs:"));
    }

    #[test]
    fn a_panic_from_elsewhere_is_not_given_the_place_of_another() {
        let text = text_of(|| {
            let _ = catch_unwind(|| panic!("here, and caught"));
            std::panic::resume_unwind(Box::new("from elsewhere"));
        });
        assert_eq!(text, "panicked: from elsewhere");
    }

    #[test]
    fn the_applications_hook_is_called_for_every_panic() {
        static CALLED: AtomicU32 = AtomicU32::new(0);
        // First, so that no other test sets a hook between the next two lines.
        remember_places();
        let previous = std::panic::take_hook();
        // Hooks belong to the process, so this one stays, before whatever was there.
        std::panic::set_hook(before(Box::new(move |info| {
            if info.payload().downcast_ref() == Some(&"for all to see") {
                CALLED.fetch_add(1, Ordering::SeqCst);
            }
            previous(info);
        })));
        text_of(|| panic!("for all to see"));
        assert_eq!(CALLED.load(Ordering::SeqCst), 1);
    }
}

//! Waiting for a condition that sends no signal.

use std::time::{Duration, Instant};

use crate::WAIT;

/// The longest that [`eventually!`](crate::eventually) waits. It only ends a test that hangs, so it is long.
pub const HANGS: Duration = Duration::from_secs(3 * WAIT.as_secs());

/// Waits until a condition holds. The message is that of the `assert!` that fails after the limit.
///
/// `let value = LOOK;` evaluates `LOOK` before each test of the condition, which can use `value`. The macro returns the last
/// `value`.
/// `within LIMIT;` gives another limit than [`HANGS`]. `blocking` waits on a thread.
#[macro_export]
macro_rules! eventually {
    (let $found:ident = $look:expr; $holds:expr $(, $($message:tt)+)?) => {{
        let began = ::std::time::Instant::now();
        loop {
            let $found = $look;
            if $holds {
                break $found;
            }
            assert!(began.elapsed() < $crate::HANGS $(, $($message)+)?);
            $crate::pause(began).await;
        }
    }};
    (within $limit:expr; $holds:expr $(, $($message:tt)+)?) => {{
        let began = ::std::time::Instant::now();
        while !$holds {
            assert!(began.elapsed() < $limit $(, $($message)+)?);
            $crate::pause(began).await;
        }
    }};
    (blocking $holds:expr $(, $($message:tt)+)?) => {{
        let began = ::std::time::Instant::now();
        while !$holds {
            assert!(began.elapsed() < $crate::HANGS $(, $($message)+)?);
            $crate::block(began);
        }
    }};
    ($holds:expr $(, $($message:tt)+)?) => {
        $crate::eventually!(within $crate::HANGS; $holds $(, $($message)+)?)
    };
}

/// Waits for the next look. The longer the wait has lasted, the rarer are the looks.
pub async fn pause(began: Instant) {
    tokio::time::sleep(length(began)).await;
}

/// Waits for the next look, on this thread.
pub fn block(began: Instant) {
    std::thread::sleep(length(began));
}

fn length(began: Instant) -> Duration {
    (began.elapsed() / 16).clamp(Duration::from_millis(2), Duration::from_millis(50))
}

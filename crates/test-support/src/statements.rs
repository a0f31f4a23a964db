//! The statements that a future sends.

use super::{keeper, seen};
use crate::eventually;

/// Runs a future on this test's own thread and answers with the statements it sent.
pub async fn statements_of<T>(future: impl Future<Output = T>) -> (T, Vec<String>) {
    seen::install();
    keeper::take();
    let answer = future.await;
    (answer, keeper::take())
}

/// Runs a future on this test's own thread and counts the statements it sent.
pub async fn counting_statements<T>(future: impl Future<Output = T>) -> (T, u64) {
    let (answer, statements) = statements_of(future).await;
    (answer, statements.len() as u64)
}

/// Waits until this test's own thread has sent `times` more statements with this text. Failed ones count.
pub async fn until_sent(text: &str, times: usize) {
    seen::install();
    keeper::take();
    let mut sent = 0;
    eventually!(
        {
            sent += keeper::take().iter().filter(|statement| statement.contains(text)).count();
            sent >= times
        },
        "{sent} statements, not {times}: {text}"
    );
}

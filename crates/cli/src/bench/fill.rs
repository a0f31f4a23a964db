//! Filling the table with jobs to work, or to be in the way.

use super::ground::Ground;
use super::interrupted;
use crate::failure::Failure;

const FILL: &str = include_str!("sql/fill.sql");

/// So many rows go in one statement that Ctrl-C is heard soon.
const PORTION: u64 = 100_000;

/// Jobs to put into the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// The first one's number. Ids follow the numbers.
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) queues: u32,
    /// Bytes of args beyond the number.
    pub(super) pad: usize,
    pub(super) keyed: bool,
    pub(super) state: &'static str,
    /// How long ago they were made, in PostgreSQL's words. Only the ids tell.
    pub(super) age: &'static str,
}

impl Fill {
    /// Jobs that wait in the one queue.
    pub(super) const fn waiting(count: u64) -> Self {
        Self { first: 0, count, queues: 1, pad: 0, keyed: false, state: "available", age: "0" }
    }

    /// Inserts them as SQL, so that ours and theirs find the same.
    pub(super) async fn insert(self, ground: &mut Ground) -> Result<(), Failure> {
        let Self { first, count, queues, pad, keyed, state, age } = self;
        let mut done = 0;
        while done < count {
            if ground.interrupt.is_cancelled() {
                return Err(interrupted());
            }
            let portion = PORTION.min(count - done);
            sqlx::query(ground.sql(FILL))
                .bind((first + done).cast_signed())
                .bind(portion.cast_signed())
                .bind(queues.cast_signed())
                .bind(i32::try_from(pad).unwrap_or(i32::MAX))
                .bind(keyed)
                .bind(state)
                .bind(age)
                .execute(&mut ground.connection)
                .await?;
            done += portion;
        }
        Ok(())
    }
}

/// The queues that [`Fill`] spreads its jobs over.
pub(super) fn queue_names(queues: u32) -> Vec<String> {
    match queues {
        1 => vec!["bench".to_owned()],
        queues => (0..queues).map(|queue| format!("bench_{queue}")).collect(),
    }
}

//! The databases that statistics come from: one, or all places of a map.

use std::sync::atomic::{AtomicBool, Ordering};

use uniqueue::{Client, Places, Result};

use crate::database::{Database, DatabaseArguments};
use crate::failure::Failure;
use crate::interrupt::{answered, nothing_changed};
use crate::output;
use crate::verdict::Verdict;

pub(super) enum Source {
    One(Box<Database>),
    All {
        places: Places,
        /// Whether a place did not answer.
        has_failed: AtomicBool,
    },
}

impl Source {
    pub(super) async fn open(arguments: &DatabaseArguments, places: Option<Places>) -> Result<Self, Failure> {
        Ok(match places {
            Some(places) => Self::All { places, has_failed: AtomicBool::new(false) },
            None => Self::One(Box::new(Database::open_migrated(arguments).await?)),
        })
    }

    /// The answer of the database, or those of all places in one. A place that does not answer is named on standard error.
    pub(super) async fn ask<T, F>(
        &self,
        ask: impl Fn(Client) -> F,
        merge: impl FnOnce(Vec<T>) -> Option<T>,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asking = async {
            let (places, has_failed) = match self {
                Self::One(database) => return Ok(ask(database.client.clone()).await?),
                Self::All { places, has_failed } => (places, has_failed),
            };
            let checked = |client: Client| {
                let asked = ask(client.clone());
                async move {
                    client.check_schema().await?;
                    asked.await
                }
            };
            let mut answers = Vec::new();
            for (place, answer) in places.ask(checked).await {
                match answer {
                    Ok(answer) => answers.push(answer),
                    Err(error) => {
                        output::print_to_stderr(&format!("place {place}: error: {error}"));
                        has_failed.store(true, Ordering::Relaxed);
                    }
                }
            }
            merge(answers).ok_or_else(|| Failure::refused("no place answered", "see `uniqueue places check`"))
        };
        answered(nothing_changed, asking).await
    }

    /// Closes the connections. Answers whether every place answered each time.
    pub(super) async fn close(self) -> Result<Verdict, Failure> {
        match self {
            Self::One(database) => database.close().await.map(|()| Verdict::Fine),
            Self::All { has_failed, .. } => Ok(if has_failed.into_inner() { Verdict::NotFine } else { Verdict::Fine }),
        }
    }
}

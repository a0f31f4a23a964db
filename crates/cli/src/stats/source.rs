//! The databases that statistics come from: one, or all places of a map.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use uniqueue::{Client, PlaceName, Places, Result};

use crate::database::{Database, DatabaseArguments};
use crate::exit::{Failure, Verdict};
use crate::interrupt::{answered, nothing_changed};
use crate::output::{self, Answer};

pub(super) enum Source {
    One(Box<Database>),
    All {
        places: Places,
        /// Whether a place did not answer.
        has_failed: AtomicBool,
        /// The places whose schema was found to fit. A watch asks each of them once.
        fits: Arc<Mutex<BTreeSet<PlaceName>>>,
    },
}

impl Source {
    pub(super) async fn open(arguments: &DatabaseArguments, places: Option<Places>) -> Result<Self, Failure> {
        Ok(match places {
            Some(places) => Self::All { places, has_failed: AtomicBool::new(false), fits: Arc::default() },
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
            let (places, has_failed, fits) = match self {
                Self::One(database) => return Ok(ask(database.client.clone()).await?),
                Self::All { places, has_failed, fits } => (places, has_failed, fits),
            };
            let checked = |client: Client| {
                let (asked, fits) = (ask(client.clone()), Arc::clone(fits));
                async move {
                    let Some(place) = client.place() else { return asked.await };
                    if !fits.lock().unwrap_or_else(PoisonError::into_inner).contains(place) {
                        client.check_schema().await?;
                        fits.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone());
                    }
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

    /// Closes the connections and prints the answer of a command.
    pub(super) async fn answer(self, answer: Answer) -> Result<Verdict, Failure> {
        let verdict = self.close().await?;
        answer.verdict(verdict).print()
    }

    /// Closes the connections. Answers whether every place answered each time.
    pub(super) async fn close(self) -> Result<Verdict, Failure> {
        match self {
            Self::One(database) => database.close().await.map(|()| Verdict::Fine),
            Self::All { has_failed, .. } => Ok(if has_failed.into_inner() { Verdict::NotFine } else { Verdict::Fine }),
        }
    }
}

//! The databases that statistics come from: one, or all places of a map.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use uniqueue::{Client, PlaceName, Places, Result};

use crate::database::{Database, DatabaseArguments, ask_places};
use crate::exit::{Failure, Verdict};
use crate::interrupt::{answered, nothing_changed};
use crate::output::Answer;

pub(super) enum Source {
    One(Box<Database>),
    All {
        places: Places,
        /// Whether every place has answered each time.
        verdict: Verdict,
        /// The places whose schema was found to fit. A watch asks each of them once.
        fits: Arc<Mutex<BTreeSet<Option<PlaceName>>>>,
    },
}

impl Source {
    pub(super) async fn open(arguments: &DatabaseArguments, places: Option<Places>) -> Result<Self, Failure> {
        Ok(match places {
            Some(places) => Self::All { places, verdict: Verdict::Fine, fits: Arc::default() },
            None => Self::One(Box::new(Database::open_migrated(arguments).await?)),
        })
    }

    /// The answer of the database, or those of all places in one. A place that does not answer is named on standard error.
    pub(super) async fn ask<T, F>(
        &mut self,
        ask: impl Fn(Client) -> F,
        merge: impl FnOnce(Vec<T>) -> Option<T>,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let asking = async {
            let (places, verdict, fits) = match self {
                Self::One(database) => return Ok(ask(database.client.clone()).await?),
                Self::All { places, verdict, fits } => (places, verdict, fits),
            };
            let checked = |client: Client| {
                let (asked, fits, place) = (ask(client.clone()), Arc::clone(fits), client.place().cloned());
                async move {
                    let fits = || fits.lock().unwrap_or_else(PoisonError::into_inner);
                    if !fits().contains(&place) {
                        client.check_schema().await?;
                        fits().insert(place);
                    }
                    Ok(asked.await?)
                }
            };
            let (answers, now) = ask_places(places, checked).await;
            *verdict = now.max(*verdict);
            let answers = answers.into_iter().map(|(_, answer)| answer).collect();
            merge(answers).ok_or_else(|| Failure::refused("no place answered", "see `uniqueue places check`"))
        };
        answered(nothing_changed, asking).await
    }

    /// Closes the connections, and prints the answer of a command.
    pub(super) async fn answer(self, answer: Answer) -> Result<Verdict, Failure> {
        let verdict = match self {
            Self::One(database) => database.close().await.map(|()| Verdict::Fine)?,
            Self::All { verdict, .. } => verdict,
        };
        answer.verdict(verdict).print()
    }
}

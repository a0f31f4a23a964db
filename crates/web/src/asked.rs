//! Asking the queue, or each of all places, so that a page need not know whether there are several.

use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use uniqueue::PlaceName;

use crate::failure::Failure;
use crate::html::Hostile;
use crate::page::{LOOK_UP, Page};

/// How long a place may take for its part of a page: a look-up that is stopped, and its answer.
const LONGEST: Duration = LOOK_UP.saturating_add(Duration::from_millis(300));

/// Answers, each with the page of its place.
pub(crate) struct Asked<T> {
    pub(crate) answers: Vec<(Arc<Page>, T)>,
    /// The places that did not answer, or answered with old data, and why.
    silent: Vec<(PlaceName, String)>,
}

impl Page {
    /// Asks the queue. A page over all places asks each of them at once, and names those that do not answer.
    pub(crate) async fn ask<T, F>(self: &Arc<Self>, ask: impl Fn(Arc<Self>) -> F) -> Result<Asked<T>, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let Some(all) = self.app.all_places() else {
            let answer = ask(Arc::clone(self)).await?;
            return Ok(Asked { answers: vec![(Arc::clone(self), answer)], silent: Vec::new() });
        };
        let (mut asking, mut silent) = (Vec::new(), Vec::new());
        for (name, app) in all.iter() {
            // The sampler notices when a place answers again. Until then no page waits for it.
            app.sampler.want();
            if let Some(failure) = app.sampler.seen().failure {
                silent.push((name.clone(), failure.why));
                continue;
            }
            let page = Arc::new(self.in_place(name, app));
            let answer = timeout(LONGEST, ask(Arc::clone(&page)));
            asking.push((name.clone(), page, AbortOnDropHandle::new(tokio::spawn(answer))));
        }
        let mut answers = Vec::new();
        for (name, page, answer) in asking {
            let problem = match answer.await {
                Ok(Ok(Ok(answer))) => {
                    let problem = page.seen.get().and_then(|seen| seen.problem()).map(ToOwned::to_owned);
                    answers.push((page, answer));
                    problem
                }
                Ok(Ok(Err(failure))) => Some(failure.words()),
                Ok(Err(_)) => Some(format!("no answer within {} s", LOOK_UP.as_secs())),
                Err(_) => Some("the page failed".to_owned()),
            };
            silent.extend(problem.map(|problem| (name, problem)));
        }
        Ok(Asked { answers, silent })
    }
}

impl<T> Asked<T> {
    /// The rows of all answers in one list, each with the page of its place, and with what holds for its whole answer, such as
    /// the time there.
    pub(crate) fn rows<'a, N: Copy, R>(&'a self, of: impl Fn(&'a T) -> (N, &'a [R])) -> Vec<(&'a Page, N, &'a R)> {
        let of_place = |(page, answer): &'a (Arc<Page>, T)| {
            let (now, rows) = of(answer);
            rows.iter().map(move |row| (page.as_ref(), now, row))
        };
        self.answers.iter().flat_map(of_place).collect()
    }

    /// Whether every place answered.
    pub(crate) fn is_whole(&self) -> bool {
        self.silent.is_empty()
    }

    /// Why a place did not answer.
    pub(crate) fn problem_of(&self, place: &PlaceName) -> Option<&str> {
        self.silent.iter().find(|(silent, _)| silent == place).map(|(_, problem)| problem.as_str())
    }

    /// Names the places that did not answer.
    pub(crate) fn silent(&self) -> Markup {
        html! {
            @for (place, problem) in &self.silent {
                p.callout.critical role="alert" { b { "Place " (Hostile(place.as_str())) } ": " (Hostile(problem)) }
            }
        }
    }
}

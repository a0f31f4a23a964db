//! Which processes work places now, and which places this one works of them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::assignment::assigned;
use super::{PlaceAddress, Places};
use crate::client::connections::time_limit;
use crate::client::{Call, Client};

/// How often a process looks which other processes live.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// How long the first look waits for the places.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Stands between the name of a process and the part that no other process has.
pub(super) const MARK: &str = " places-";

/// The live processes that work places.
pub(super) struct Processes {
    places: Places,
    name: String,
    most_runners: usize,
    /// The processes that each place saw last. A place that does not answer keeps its list.
    seen: Vec<BTreeSet<String>>,
}

impl Processes {
    pub(super) fn new(places: Places, name: String, most_runners: usize) -> Self {
        let seen = vec![BTreeSet::new(); places.inner.clients.len()];
        Self { places, name, most_runners, seen }
    }

    /// Looks again and again which processes live, and assigns the places.
    pub(super) async fn look(mut self, assign: watch::Sender<Vec<bool>>, stopping: CancellationToken) {
        let looking = async {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                let now = self.assignment(LOOK_INTERVAL).await;
                assign.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
            }
        };
        stopping.run_until_cancelled(looking).await;
    }

    /// Whether this process works each place, by the processes that live. A place that does not answer within the limit keeps
    /// the processes that it saw last.
    pub(super) async fn assignment(&mut self, limit: Duration) -> Vec<bool> {
        let look = |client: Client| async move { time_limit::within(limit, live_runners(&client).into_future()).await };
        let answers = self.places.ask(look).await;
        for (seen, (_, answer)) in self.seen.iter_mut().zip(answers) {
            if let Ok(runners) = answer {
                *seen = runners.into_iter().filter(|name| name.contains(MARK)).collect();
            }
        }
        let processes = self.seen.iter().flatten().cloned().collect();
        let places = self.places.map().places().map(PlaceAddress::name);
        assigned(places, &processes, &self.name, self.most_runners)
    }
}

fn live_runners(client: &Client) -> Call<'_, Vec<String>> {
    Call::new(client, |client, connection| Box::pin(client.store(connection).live_runners()))
}

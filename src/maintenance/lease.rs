//! The lease of a service, so that one of many runners does its work.
//!
//! The term counts from before the database was asked, so that this process never believes in a lease that the database
//! gives to another already. A lease saves work and nothing else: each statement of each service is right with any
//! number of holders.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::connection::SharedConnection;
use crate::client::Client;
use crate::error::Result;
use crate::store::Store;

/// A runner that offers to do the services, and its means.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) id: Uuid,
    /// The runner's name, for people.
    pub(crate) runner: String,
    pub(crate) client: Client,
    pub(crate) connection: SharedConnection,
}

impl Holder {
    /// Sends a statement over the connection that the services share.
    pub(super) async fn ask<T>(&self, statement: impl AsyncFnOnce(Store<'_>) -> Result<T>) -> Result<T> {
        self.connection.ask(async |connection| statement(self.client.store(connection)).await).await
    }
}

/// The lease of one service, held or not.
pub(super) struct ServiceLease {
    service: &'static str,
    holder: Holder,
    until: Option<Instant>,
    /// Whether the database may have given the lease: an answer can be lost.
    may_be_held: bool,
}

impl ServiceLease {
    pub(super) const fn new(service: &'static str, holder: Holder) -> Self {
        Self { service, holder, until: None, may_be_held: false }
    }

    pub(super) const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// How much of the term is left.
    pub(super) fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Takes the lease, or extends it. `Some`: another holder has it, for about this long.
    pub(super) async fn take(&mut self, term: Duration) -> Result<Option<Duration>> {
        let asked_at = Instant::now();
        let (holder, service, may_be_held) = (&self.holder, self.service, &mut self.may_be_held);
        let taking = holder.ask(async |store| {
            *may_be_held = true;
            store.take_service(service, holder.id, &holder.runner, term).await
        });
        let taken = holder.connection.within_a_run(taking).await?;
        self.may_be_held = taken.is_none();
        self.until = taken.is_none().then(|| asked_at + term);
        Ok(taken)
    }

    /// Releases the lease, so that others need not wait for its end.
    pub(super) async fn release(self) -> Result<()> {
        if !self.may_be_held {
            return Ok(());
        }
        self.holder.ask(async |store| store.release_service(self.service, self.holder.id).await).await
    }
}

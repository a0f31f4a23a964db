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

/// A runner that offers to do the services, and its means.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) id: Uuid,
    /// The runner's name, for people.
    pub(crate) runner: String,
    pub(crate) client: Client,
    pub(crate) connection: SharedConnection,
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
        let Holder { id, runner, connection, client } = &self.holder;
        let (service, may_be_held) = (self.service, &mut self.may_be_held);
        let taking = async {
            let mut session = connection.session().await?;
            *may_be_held = true;
            let taken = client.store(session.connection()).take_service(service, *id, runner, term).await?;
            session.end().await?;
            Ok(taken)
        };
        let taken = connection.within_a_run(taking).await?;
        self.may_be_held = taken.is_none();
        self.until = taken.is_none().then(|| asked_at + term);
        Ok(taken)
    }

    /// Releases the lease, so that others need not wait for its end.
    pub(super) async fn release(self) -> Result<()> {
        if !self.may_be_held {
            return Ok(());
        }
        let mut session = self.holder.connection.session().await?;
        let Holder { id, client, .. } = &self.holder;
        client.store(session.connection()).release_service(self.service, *id).await?;
        session.end().await
    }
}

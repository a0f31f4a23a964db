//! Who does a service: one lease for each, so that of many runners one has the work.
//!
//! The term is measured from before the database was asked, so that this process never takes a
//! lease for its own that the database gives to another already. A lease saves work and nothing
//! else: each statement of each service is right with any number of holders.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::connection::SharedConnection;
use crate::client::Client;
use crate::error::Result;
use crate::store::{self, Statements};

/// Who offers to do the services, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) id: Uuid,
    /// The runner's name, for people.
    pub(crate) runner: String,
    pub(crate) client: Client,
    pub(crate) connection: SharedConnection,
    pub(crate) statements: Statements,
}

/// One holder's hold on one service.
pub(super) struct Tenure {
    service: &'static str,
    holder: Holder,
    until: Option<Instant>,
    /// Whether the database may say that it is ours: it may have answered what nobody heard.
    may_hold: bool,
}

impl Tenure {
    pub(super) const fn new(service: &'static str, holder: Holder) -> Self {
        Self { service, holder, until: None, may_hold: false }
    }

    pub(super) const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// How much of the term is left.
    pub(super) fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Takes the lease, or extends it. `Some`: it is another's, for about so long.
    pub(super) async fn take(&mut self, term: Duration) -> Result<Option<Duration>> {
        let asked_at = Instant::now();
        let Holder { id, runner, connection, statements, client: _ } = &self.holder;
        let (service, may_hold) = (self.service, &mut self.may_hold);
        let taking = async {
            let mut session = connection.session().await?;
            *may_hold = true;
            let taken = store::take_service(session.connection(), statements, service, *id, runner, term).await?;
            session.end().await?;
            Ok(taken)
        };
        let taken = connection.answer(taking).await?;
        self.may_hold = taken.is_none();
        self.until = taken.is_none().then(|| asked_at + term);
        Ok(taken)
    }

    /// Gives the lease up, so that others need not wait for its end.
    pub(super) async fn release(self) -> Result<()> {
        if !self.may_hold {
            return Ok(());
        }
        let mut session = self.holder.connection.session().await?;
        let Holder { id, statements, .. } = &self.holder;
        store::release_service(session.connection(), statements, self.service, *id).await?;
        session.end().await
    }
}

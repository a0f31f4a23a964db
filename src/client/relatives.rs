//! Parents of jobs.

use std::collections::HashMap;

use super::{Call, Client};
use crate::store;
use crate::words::after::JobParent;
use crate::words::ident::JobId;

impl Client {
    /// The parents of a job, with their outputs. A deleted parent has only its id, its condition and its outcome.
    /// Parents are kept until the job is final.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn parents(&self, id: impl Into<JobId>) -> Call<'_, Vec<JobParent>> {
        let id = id.into();
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                let mut parents = store::parents_of(connection, client.statements(), &[id]).await?;
                Ok(parents.remove(&id).unwrap_or_default())
            })
        })
    }

    /// The [parents](Self::parents) of many jobs, by the ids of the jobs, in one statement. A job without parents is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn parents_of(&self, ids: impl IntoIterator<Item = JobId>) -> Call<'_, HashMap<JobId, Vec<JobParent>>> {
        let ids: Vec<_> = ids.into_iter().collect();
        Call::new(self, move |client, connection| {
            Box::pin(async move { store::parents_of(connection, client.statements(), &ids).await })
        })
    }
}

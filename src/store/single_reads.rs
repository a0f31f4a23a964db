//! Single reads: a job by its id, the final ones of some jobs, parents, the holder of a key, the database's time.
use std::collections::HashMap;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::job_row;
use super::{Store, query};
use crate::error::Result;
use crate::words::after::JobParent;
use crate::words::ident::{JobId, Kind};
use crate::words::job::JobRow;
use crate::words::state::JobState;

impl Store<'_> {
    /// One job, if it exists.
    pub(crate) async fn job_by_id(self, id: JobId) -> Result<Option<JobRow>> {
        let row = query(&self.statements.job_by_id).bind(id.as_uuid()).fetch_optional(self.connection).await?;
        row.map(|row| job_row(&row)).transpose()
    }

    /// The job that claims a key now, if one does.
    pub(crate) async fn holder(self, key: &str) -> Result<Option<JobRow>> {
        let row = query(&self.statements.holder).bind(key).fetch_optional(self.connection).await?;
        row.map(|row| job_row(&row)).transpose()
    }

    /// The database's time, as the `created_at` of a job inserted now would be.
    pub(crate) async fn database_time(self) -> Result<OffsetDateTime> {
        let row = query(&self.statements.database_time).fetch_one(self.connection).await?;
        Ok(row.try_get(0)?)
    }

    /// Of these jobs, those that are final, and those that do not exist, which have no row.
    pub(crate) async fn final_jobs(self, ids: &[Uuid]) -> Result<Vec<(JobId, Option<JobRow>)>> {
        let rows = query(&self.statements.final_jobs).bind(ids).fetch_all(self.connection).await?;
        let read = |row| {
            let id = JobId::from(Row::try_get::<Uuid, _>(row, "waited_for")?);
            let exists = Row::try_get::<Option<Uuid>, _>(row, "id")?.is_some();
            Ok((id, exists.then(|| job_row(row)).transpose()?))
        };
        rows.iter().map(read).collect()
    }

    /// Whether jobs of the queue are deleted as they complete, so that their results cannot be read.
    pub(crate) async fn deletes_completed(self, queue: &str) -> Result<bool> {
        let row = query(&self.statements.deletes_completed).bind(queue).fetch_one(self.connection).await?;
        Ok(row.try_get("deletes_completed")?)
    }

    /// The jobs that these jobs run after, by the ids of the children.
    pub(crate) async fn parents_of(self, ids: &[JobId]) -> Result<HashMap<JobId, Vec<JobParent>>> {
        let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
        let rows = query(&self.statements.parents_of).bind(ids).fetch_all(self.connection).await?;
        let mut parents: HashMap<_, Vec<_>> = HashMap::new();
        for row in &rows {
            parents.entry(JobId::from(row.try_get::<Uuid, _>("child")?)).or_default().push(JobParent {
                id: job_id(row)?,
                kind: row.try_get::<Option<&str>, _>("kind")?.map(Kind::from_stored),
                state: state(row, "state")?,
                condition: row.try_get::<&str, _>("condition")?.parse()?,
                outcome: state(row, "outcome")?,
                output: row.try_get("output")?,
            });
        }
        Ok(parents)
    }
}

fn job_id(row: &PgRow) -> Result<JobId> {
    Ok(JobId::from(row.try_get::<Uuid, _>("id")?))
}

fn state(row: &PgRow, column: &str) -> Result<Option<JobState>> {
    Ok(row.try_get::<Option<&str>, _>(column)?.map(str::parse).transpose()?)
}

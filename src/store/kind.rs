//! Registered kinds.

use serde_json::Value;
use sqlx::Row;
use sqlx::types::Json;

use super::{Store, query};
use crate::error::Result;
use crate::words::kind::KindDefinition;

impl Store<'_> {
    /// Registers kinds. Answers with the name of each that is registered, and with the digest of what was declared of it. `by`: the
    /// process that registers them. `None`: what its connection says. The file of the process is the program that owns it.
    pub(crate) async fn register_kinds(
        self,
        definitions: &[KindDefinition],
        by: Option<&str>,
    ) -> Result<Vec<(String, String)>> {
        let program = std::env::current_exe().ok().map(|file| file.to_string_lossy().into_owned());
        let register = query(&self.statements.register_kinds).bind(Json(definitions)).bind(by).bind(program);
        let rows = register.fetch_all(self.connection).await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("digest")?))).collect()
    }

    /// The document of a registered kind, whose options an insert takes. `None`: the kind is not registered.
    pub(crate) async fn registered_kind(self, name: &str) -> Result<Option<Value>> {
        let row = query(&self.statements.registered_kind).bind(name).fetch_optional(self.connection).await?;
        Ok(row.map(|row| row.try_get("document")).transpose()?)
    }
}

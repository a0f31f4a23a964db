//! One place of a map: its name, its database and its schema.

use std::fmt;

use serde::Deserialize;
use sqlx::postgres::PgConnectOptions;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::words::ident::{PlaceName, SchemaName};

/// The setting with which Citus creates a session's objects on this node only.
const CITUS_OPTION: [(&str, &str); 1] = [("citus.enable_ddl_propagation", "off")];

/// One place of a [`PlaceMap`](crate::PlaceMap).
#[derive(Clone)]
pub struct PlaceAddress {
    name: PlaceName,
    options: PgConnectOptions,
    url: String,
    schema: SchemaName,
}

/// A place as a document has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceDocument {
    name: String,
    url: Option<String>,
    url_env: Option<String>,
    schema: Option<String>,
    #[serde(default)]
    citus: bool,
}

impl PlaceAddress {
    /// A place at a database URL, in the schema `uniqueue`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], and [`Error::InvalidMap`] for a URL that cannot be read.
    pub fn new(name: impl Into<String>, url: &str) -> Result<Self> {
        let name = PlaceName::new(name)?;
        let options = Client::connect_options(url).map_err(|error| invalid(format!("place {name}: {error}")))?;
        Ok(Self { name, options, url: url.to_owned(), schema: SchemaName::default() })
    }

    /// The schema of the place. Default: `uniqueue`.
    #[must_use]
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// The place is on a worker node of Citus: its sessions are opened with `citus.enable_ddl_propagation=off`, so that what
    /// they make stays on the node.
    #[must_use]
    pub fn on_citus(mut self) -> Self {
        self.options = self.options.options(CITUS_OPTION);
        let first = if self.url.contains('?') { '&' } else { '?' };
        self.url.push_str(&format!("{first}options=-c%20citus.enable_ddl_propagation%3Doff"));
        self
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &PlaceName {
        &self.name
    }

    /// Its URL as given, which may hold a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of its schema.
    #[must_use]
    pub const fn schema_name(&self) -> &SchemaName {
        &self.schema
    }

    /// The options of its connections.
    #[must_use]
    pub const fn connect_options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Its database: the host or the socket, the port and the name.
    pub(super) fn database(&self) -> String {
        let options = &self.options;
        let name = options.get_database().unwrap_or_else(|| options.get_username());
        let socket = options.get_socket().map(|path| path.to_string_lossy());
        let host = socket.unwrap_or_else(|| options.get_host().into());
        format!("{host}:{}/{name}", options.get_port())
    }
}

impl PlaceDocument {
    pub(super) fn read(self) -> Result<PlaceAddress> {
        let Self { name, url, url_env, schema, citus } = self;
        let url = match (url, url_env) {
            (Some(url), None) => url,
            (None, Some(variable)) => std::env::var(&variable)
                .map_err(|_| invalid(format!("place {name}: the variable of its url_env is not set: {variable}")))?,
            _ => return Err(invalid(format!("place {name} needs one of url and url_env"))),
        };
        let mut place = PlaceAddress::new(name, &url)?;
        if let Some(schema) = schema {
            let schema = schema.parse().map_err(|error| invalid(format!("place {}: {error}", place.name)))?;
            place = place.schema(schema);
        }
        Ok(if citus { place.on_citus() } else { place })
    }
}

pub(super) fn invalid(problem: impl Into<String>) -> Error {
    Error::InvalidMap { problem: problem.into() }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for PlaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceAddress").field("name", &self.name).field("schema", &self.schema).finish_non_exhaustive()
    }
}

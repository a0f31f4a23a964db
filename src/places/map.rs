//! The map of places: their names, where they are, and which of them share hashed values.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnectOptions;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::ident::{PlaceName, SchemaName};
use crate::store::PlaceIdentity;

/// The variable that [`PlaceMap::from_env`] reads.
const VARIABLE: &str = "UNIQUEUE_PLACES";

/// The setting with which Citus creates a session's objects on this node only.
const CITUS_OPTION: [(&str, &str); 1] = [("citus.enable_ddl_propagation", "off")];

/// The names of an application's places, where each is, and which of them share hashed values.
///
/// ```
/// use uniqueue::{PlaceAddress, PlaceMap};
///
/// let map = PlaceMap::new([
///     PlaceAddress::new("a", "postgres://db-1/app")?,
///     PlaceAddress::new("b", "postgres://db-2/app")?,
///     PlaceAddress::new("acme", "postgres://db-acme/app")?,
/// ])?
/// .hashed(["a", "b"])?;
/// assert_eq!(map.place_of("some key").map(|place| place.as_str()), Some("a"));
///
/// let same = PlaceMap::from_json(
///     r#"{"places": [{"name": "a", "url": "postgres://db-1/app"},
///                    {"name": "b", "url": "postgres://db-2/app"},
///                    {"name": "acme", "url": "postgres://db-acme/app"}],
///         "hashed": ["a", "b"]}"#,
/// )?;
/// assert_eq!(format!("{map:?}"), format!("{same:?}"));
/// # Ok::<(), uniqueue::Error>(())
/// ```
///
/// A place has `name`, `url` or `url_env` (the variable that has the URL), `schema` (default `uniqueue`), and `citus: true`
/// for a schema on a worker node of Citus: its sessions are opened with `citus.enable_ddl_propagation=off`.
///
/// Places can be added to a map at any time. The hashed list is fixed for the life of the cluster: with another list most
/// values would belong to another place. Each place stores its name and the list, and a client whose map differs is
/// refused ([`Error::MapMismatch`]).
#[derive(Clone)]
pub struct PlaceMap {
    places: Vec<PlaceAddress>,
    hashed: Vec<usize>,
}

/// One place of a [`PlaceMap`].
#[derive(Clone)]
pub struct PlaceAddress {
    name: PlaceName,
    options: PgConnectOptions,
    url: String,
    schema: SchemaName,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapDocument {
    places: Vec<PlaceDocument>,
    #[serde(default)]
    hashed: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceDocument {
    name: String,
    url: Option<String>,
    url_env: Option<String>,
    schema: Option<String>,
    #[serde(default)]
    citus: bool,
}

impl PlaceMap {
    /// A map of these places, none of which shares hashed values.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`] for a map without a place, for a name given twice, and for two places that are one schema.
    pub fn new(places: impl IntoIterator<Item = PlaceAddress>) -> Result<Self> {
        let places: Vec<_> = places.into_iter().collect();
        if places.is_empty() {
            return Err(invalid("it has no place"));
        }
        let (mut names, mut schemas) = (HashSet::new(), HashSet::new());
        for place in &places {
            if !names.insert(&place.name) {
                return Err(invalid(format!("a name is given twice: {}", place.name)));
            }
            if !schemas.insert((place.database(), &place.schema)) {
                let (_, host, port, database) = place.database();
                return Err(invalid(format!(
                    "two places are one schema: {} of {host}:{port}/{database}",
                    place.schema
                )));
            }
        }
        Ok(Self { places, hashed: Vec::new() })
    }

    /// The places that share hashed values, in an order that never changes.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`] for a name that is not in the map, or given twice.
    pub fn hashed<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Result<Self> {
        self.hashed.clear();
        for name in names {
            let name = name.as_ref();
            let Some(index) = self.places.iter().position(|place| place.name.as_str() == name) else {
                return Err(invalid(format!("a hashed place is not among the places: {name:?}")));
            };
            if self.hashed.contains(&index) {
                return Err(invalid(format!("a hashed place is given twice: {name}")));
            }
            self.hashed.push(index);
        }
        Ok(self)
    }

    /// Reads the JSON document of a map.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`], [`Error::InvalidUrl`], [`Error::InvalidName`].
    pub fn from_json(text: &str) -> Result<Self> {
        // serde's text may quote a value, and a value may be a URL with a password.
        let document: MapDocument = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data if error.to_string().contains("unknown field") => {
                invalid(error.to_string())
            }
            _ => invalid(format!(
                "it is not a JSON object {{\"places\": […], \"hashed\": […]}}: line {}, column {}",
                error.line(),
                error.column()
            )),
        })?;
        let places = document.places.into_iter().map(PlaceDocument::read).collect::<Result<Vec<_>>>()?;
        Self::new(places)?.hashed(document.hashed)
    }

    /// Reads a file with the JSON document of a map.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`] also for a file that cannot be read; as for [`from_json`](Self::from_json).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| invalid(format!("cannot read {}: {error}", path.display())))?;
        Self::from_json(&text)
    }

    /// Reads the map that `UNIQUEUE_PLACES` has: the path of a file, or the JSON document itself. `None`: the variable is
    /// not set, or empty.
    ///
    /// # Errors
    ///
    /// As for [`from_file`](Self::from_file).
    pub fn from_env() -> Result<Option<Self>> {
        match std::env::var(VARIABLE) {
            Ok(text) if text.trim_start().starts_with('{') => Self::from_json(&text).map(Some),
            Ok(path) if !path.trim().is_empty() => Self::from_file(path).map(Some),
            _ => Ok(None),
        }
    }

    /// The places, in the order of the map.
    pub fn places(&self) -> impl Iterator<Item = &PlaceAddress> {
        self.places.iter()
    }

    /// The place of a hashed value: the index is the first eight bytes of the SHA-256 of its UTF-8 text, most significant
    /// first, modulo the number of hashed places. `None`: the map has no hashed places.
    #[must_use]
    pub fn place_of(&self, value: &str) -> Option<&PlaceName> {
        self.index_of(value).map(|index| &self.places[index].name)
    }

    pub(super) fn index_of(&self, value: &str) -> Option<usize> {
        if self.hashed.is_empty() {
            return None;
        }
        let digest = Sha256::digest(value.as_bytes());
        let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let at = number % self.hashed.len() as u64;
        Some(self.hashed[usize::try_from(at).unwrap_or_default()])
    }

    pub(super) fn name(&self, index: usize) -> &PlaceName {
        &self.places[index].name
    }

    /// The identity that the place at this index must have.
    pub(super) fn identity(&self, index: usize) -> PlaceIdentity {
        let names = || self.hashed.iter().map(|index| self.places[*index].name.to_string()).collect();
        PlaceIdentity { name: self.places[index].name.clone(), hashed: self.hashed.contains(&index).then(names) }
    }
}

impl PlaceDocument {
    fn read(self) -> Result<PlaceAddress> {
        let Self { name, url, url_env, schema, citus } = self;
        let url = match (url, url_env) {
            (Some(url), None) => url,
            (None, Some(variable)) => std::env::var(&variable)
                .map_err(|_| invalid(format!("place {name}: the variable of its url_env is not set: {variable}")))?,
            _ => return Err(invalid(format!("place {name} needs one of url and url_env"))),
        };
        let mut place = PlaceAddress::new(name, &url)?;
        if let Some(schema) = schema {
            place = place.schema(schema.parse()?);
        }
        Ok(if citus { place.on_citus() } else { place })
    }
}

impl PlaceAddress {
    /// A place at a database URL, in the schema `uniqueue`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::InvalidUrl`].
    pub fn new(name: impl Into<String>, url: &str) -> Result<Self> {
        Ok(Self {
            name: PlaceName::new(name)?,
            options: Client::connect_options(url)?,
            url: url.to_owned(),
            schema: SchemaName::default(),
        })
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

    /// The socket, host, port and name of its database.
    pub(super) fn database(&self) -> (Option<&Path>, &str, u16, &str) {
        let options = &self.options;
        let name = options.get_database().unwrap_or_else(|| options.get_username());
        (options.get_socket().map(|path| path.as_path()), options.get_host(), options.get_port(), name)
    }
}

fn invalid(problem: impl Into<String>) -> Error {
    Error::InvalidMap { problem: problem.into() }
}

/// Without URLs, which may hold passwords.
impl fmt::Debug for PlaceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hashed: Vec<_> = self.hashed.iter().map(|index| &self.places[*index].name).collect();
        f.debug_struct("PlaceMap").field("places", &self.places).field("hashed", &hashed).finish()
    }
}

impl fmt::Debug for PlaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceAddress").field("name", &self.name).field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(names: &[&str]) -> PlaceMap {
        let place = |name: &&str| PlaceAddress::new(*name, &format!("postgres://host-{name}/app")).unwrap();
        PlaceMap::new(names.iter().map(place)).unwrap()
    }

    #[test]
    fn a_map_that_cannot_be_right_is_refused_without_its_urls() {
        let one = r#"{"name": "a", "url": "postgres://u:s3cret@h/d"}"#;
        let two = r#"{"name": "b", "url": "postgres://u:s3cret@h/d"}"#;
        for (text, problem) in [
            (r#"{"places": []}"#.to_owned(), "it has no place"),
            (format!(r#"{{"places": [{one}, {one}]}}"#), "a name is given twice: a"),
            (format!(r#"{{"places": [{one}, {two}]}}"#), "two places are one schema: uniqueue of h:5432/d"),
            (format!(r#"{{"places": [{one}], "hashed": ["x"]}}"#), "a hashed place is not among the places: \"x\""),
            (format!(r#"{{"places": [{one}], "hashed": ["a", "a"]}}"#), "a hashed place is given twice: a"),
            (r#"{"places": [{"name": "a"}]}"#.to_owned(), "place a needs one of url and url_env"),
            (r#"{"places": [{"name": "a", "url_env": "NO_SUCH_VARIABLE"}]}"#.to_owned(), "not set: NO_SUCH_VARIABLE"),
            (r#"{"places": [], "hash": []}"#.to_owned(), "unknown field `hash`"),
            (r#"{"places": "postgres://u:s3cret@h/d"}"#.to_owned(), "it is not a JSON object"),
        ] {
            let error = PlaceMap::from_json(&text).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(told.contains(problem) && !told.contains("s3cret"), "{text}: {told}");
        }
        assert!(!format!("{:?}", PlaceMap::from_json(&format!(r#"{{"places": [{one}]}}"#))).contains("s3cret"));
    }

    #[test]
    fn a_value_has_the_place_that_its_sha_256_says() {
        let map = map(&["x", "a", "b", "c"]).hashed(["c", "a", "b"]).unwrap();
        // printf hello | sha256sum: 2cf24dba5fb0a30e…, modulo 3 is 1.
        assert_eq!(0x2cf2_4dba_5fb0_a30e_u64 % 3, 1);
        assert_eq!(map.place_of("hello").unwrap().as_str(), "a");
        let mut counts = [0_u32; 4];
        (0..3_000).for_each(|n| counts[map.index_of(&n.to_string()).unwrap()] += 1);
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(self::map(&["a"]).place_of("hello"), None);
    }

    #[test]
    fn a_place_knows_the_hashed_list_only_if_it_is_in_it() {
        let map = map(&["x", "a", "b"]).hashed(["b", "a"]).unwrap();
        assert_eq!(map.identity(0).hashed, None);
        assert_eq!(map.identity(1).hashed, Some(vec!["b".to_owned(), "a".to_owned()]));
    }
}

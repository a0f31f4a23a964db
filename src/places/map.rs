//! The map of places: which there are, and which of them share hashed values.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use super::address::{PlaceAddress, PlaceDocument, invalid};
use crate::error::{Error, Result};
use crate::store::PlaceIdentity;
use crate::words::ident::PlaceName;
use crate::words::place_by::hashed_index;

/// The variable that [`PlaceMap::from_env`] reads.
const VARIABLE: &str = "UNIQUEUE_PLACES";

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
/// refused ([`Error::MapMismatch`]). A place outside of the list stores it as well, to refuse jobs that belong to the others,
/// and takes clients whose map has no list.
#[derive(Clone)]
pub struct PlaceMap {
    pub(super) places: Vec<PlaceAddress>,
    hashed: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapDocument {
    places: Vec<PlaceDocument>,
    #[serde(default)]
    hashed: Vec<String>,
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
        let mut schemas = HashMap::new();
        for (index, place) in places.iter().enumerate() {
            if places[..index].iter().any(|other| other.name() == place.name()) {
                return Err(invalid(format!("a name is given twice: {}", place.name())));
            }
            if let Some(other) = schemas.insert((place.database(), place.schema_name()), place.name()) {
                let (schema, database) = (place.schema_name(), place.database());
                return Err(invalid(format!(
                    "places {other} and {} are one schema: {schema} of {database}; hint: give each a schema of its own",
                    place.name()
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
            let named = self.index_named(name.as_ref());
            let index = named.map_err(|error| invalid(format!("in the hashed list: {error}")))?;
            if self.hashed.contains(&index) {
                return Err(invalid(format!("a hashed place is given twice: {}", name.as_ref())));
            }
            self.hashed.push(index);
        }
        Ok(self)
    }

    /// Reads the JSON document of a map.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMap`], [`Error::InvalidName`].
    pub fn from_json(text: &str) -> Result<Self> {
        let document: MapDocument = serde_json::from_str(text).map_err(|error| {
            let told = error.to_string();
            // Other texts of serde may quote a value, and a value may be a URL with a password.
            let names_a_field =
                ["unknown field", "missing field", "duplicate field"].iter().any(|of| told.starts_with(of));
            let at = format!("line {}, column {}", error.line(), error.column());
            let form = r#"{"places": [{"name": …, "url": …}, …], "hashed": […]}"#;
            invalid(if names_a_field { told } else { format!("it is not a JSON object as {form}: {at}") })
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
        Self::from_json(&text).map_err(|error| match error {
            Error::InvalidMap { problem } => invalid(format!("{}: {problem}", path.display())),
            other => other,
        })
    }

    /// Reads the JSON document of a map, or the file at this path.
    ///
    /// # Errors
    ///
    /// As for [`from_file`](Self::from_file).
    pub fn from_json_or_file(given: &str) -> Result<Self> {
        if given.trim_start().starts_with('{') { Self::from_json(given) } else { Self::from_file(given) }
    }

    /// Reads the map that `UNIQUEUE_PLACES` has: the path of a file, or the JSON document itself. `None`: the variable is
    /// not set, or empty.
    ///
    /// # Errors
    ///
    /// As for [`from_file`](Self::from_file).
    pub fn from_env() -> Result<Option<Self>> {
        let given = std::env::var(VARIABLE).ok().filter(|given| !given.trim().is_empty());
        given.map(|given| Self::from_json_or_file(&given)).transpose()
    }

    /// The places, in the order of the map.
    pub fn places(&self) -> impl Iterator<Item = &PlaceAddress> {
        self.places.iter()
    }

    /// The place with this name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPlace`].
    pub fn place(&self, name: &str) -> Result<&PlaceAddress> {
        self.index_named(name).map(|index| &self.places[index])
    }

    pub(super) fn index_named(&self, name: &str) -> Result<usize> {
        self.places.iter().position(|place| place.name().as_str() == name).ok_or_else(|| {
            let known: Vec<_> = self.places.iter().map(|place| place.name().as_str()).collect();
            Error::UnknownPlace { given: name.to_owned(), known: known.join(", ") }
        })
    }

    /// The place of a hashed value: the index is the first eight bytes of the SHA-256 of its UTF-8 text, most significant
    /// first, modulo the number of hashed places. `None`: the map has no hashed places.
    #[must_use]
    pub fn place_of(&self, value: &str) -> Option<&PlaceName> {
        self.index_of(value).map(|index| self.places[index].name())
    }

    pub(super) fn index_of(&self, value: &str) -> Option<usize> {
        hashed_index(value, self.hashed.len()).map(|at| self.hashed[at])
    }

    pub(super) fn name(&self, index: usize) -> &PlaceName {
        self.places[index].name()
    }

    /// Whether a place is one of those that share hashed values.
    #[must_use]
    pub fn is_hashed(&self, place: &PlaceName) -> bool {
        self.hashed.iter().any(|index| self.name(*index) == place)
    }

    /// The identity that the place at this index must have.
    pub(super) fn identity(&self, index: usize) -> PlaceIdentity {
        let names: Vec<_> = self.hashed.iter().map(|index| self.places[*index].name().to_string()).collect();
        PlaceIdentity::new(self.name(index).clone(), (!names.is_empty()).then_some(names))
    }
}

/// Without URLs, which may hold passwords.
impl fmt::Debug for PlaceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hashed: Vec<_> = self.hashed.iter().map(|index| self.places[*index].name()).collect();
        f.debug_struct("PlaceMap").field("places", &self.places).field("hashed", &hashed).finish()
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
        let other = r#"{"name": "é b/c", "url": "postgres://u:s3cret@other/d"}"#;
        for (text, problem) in [
            (r#"{"places": []}"#.to_owned(), "it has no place"),
            (format!(r#"{{"places": [{one}, {one}]}}"#), "a name is given twice: a"),
            (
                format!(r#"{{"places": [{one}, {two}]}}"#),
                "places a and b are one schema: uniqueue of h:5432/d; hint: give each a schema of its own",
            ),
            (
                format!(r#"{{"places": [{one}, {other}], "hashed": ["a", "x"]}}"#),
                "in the hashed list: unknown place: \"x\"; hint: the places are a, é b/c",
            ),
            (
                r#"{"places": [{"name": "", "url": "postgres://h/d"}]}"#.to_owned(),
                "invalid place: must not be empty: \"\"",
            ),
            (
                format!(r#"{{"places": [{{"name": "{}", "url": "postgres://h/d"}}]}}"#, "x".repeat(129)),
                "invalid place: must not be longer than 128 bytes",
            ),
            (
                r#"{"places": [{"name": "a\nb", "url": "postgres://h/d"}]}"#.to_owned(),
                "must not hold control characters: \"a\\nb\"",
            ),
            (
                r#"{"places": [{"name": "a", "url": "mysql://u:s3cret@h/d"}]}"#.to_owned(),
                "place a: invalid database URL: it must start with postgres:// or postgresql://; hint: postgres://",
            ),
            (
                r#"{"places": [{"name": "a", "url": "postgres://h/d", "schema": "a b"}]}"#.to_owned(),
                "place a: invalid schema: must be a letter or underscore",
            ),
            (format!(r#"{{"places": [{one}], "hashed": ["a", "a"]}}"#), "a hashed place is given twice: a"),
            (r#"{"places": [{"name": "a"}]}"#.to_owned(), "place a needs one of url and url_env"),
            (r#"{"places": [{"name": "a", "url_env": "NO_SUCH_VARIABLE"}]}"#.to_owned(), "not set: NO_SUCH_VARIABLE"),
            (r#"{"places": [], "hash": []}"#.to_owned(), "unknown field `hash`"),
            (r#"{"places": [{"url": "postgres://h/d"}]}"#.to_owned(), "missing field `name`"),
            (r#"{"places": [{"name": "a", "url": 7}]}"#.to_owned(), "\"hashed\": […]}: line 1, column 34"),
            (r#"{"places": "postgres://u:s3cret@h/d"}"#.to_owned(), "it is not a JSON object"),
        ] {
            let error = PlaceMap::from_json(&text).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(told.contains(problem) && !told.contains("s3cret"), "{text}: {told}");
        }
        let named = PlaceMap::from_json_or_file("/no/such/map.json").unwrap_err().to_string();
        assert!(named.starts_with("invalid map of places: cannot read /no/such/map.json: "), "{named}");
        let map =
            PlaceMap::from_json_or_file(&format!(r#" {{"places": [{one}, {other}], "hashed": ["é b/c"]}}"#)).unwrap();
        assert_eq!(map.place("é b/c").unwrap().name().as_str(), "é b/c");
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
}

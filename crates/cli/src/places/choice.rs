//! The places that the command line names, in which commands work instead of in the database of their arguments.

use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use uniqueue::{Client, PlaceAddress, PlaceMap, Places};

use crate::exit::Failure;

/// Where a command works, if there are several places.
#[derive(Debug, Args)]
pub(crate) struct PlacesArguments {
    /// Ask all places of this map: a JSON file, see `uniqueue places --help`
    #[arg(long, global = true, value_name = "FILE", env = "UNIQUEUE_PLACES", hide_env_values = true)]
    pub(crate) places: Option<String>,

    /// Work in this place of --places
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) place: Option<String>,

    /// Whether the command line names a database or a schema itself.
    #[arg(skip)]
    pub(crate) names_database: bool,
}

/// The places of the command line.
#[derive(Debug)]
pub(crate) enum Choice {
    One(Box<PlaceAddress>),
    All(Places),
}

/// How long a place may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

static CHOICE: OnceLock<Choice> = OnceLock::new();

/// What the command line chose. `None`: the database of the command's arguments.
pub(crate) fn choice() -> Option<&'static Choice> {
    CHOICE.get()
}

/// All places of the map, where the command line names them together.
pub(crate) fn all() -> Option<&'static Places> {
    match choice()? {
        Choice::All(places) => Some(places),
        Choice::One(_) => None,
    }
}

impl PlacesArguments {
    /// Makes the choice. Call it once, before a database is opened.
    pub(crate) fn choose(&self) -> Result<(), Failure> {
        if self.place.is_none() && self.places.as_ref().is_none_or(String::is_empty) {
            return Ok(());
        }
        if self.names_database {
            return Err(Failure::refused("--places names the databases", "leave out --database-url and --schema"));
        }
        let map = self.map()?;
        let chosen = match &self.place {
            Some(place) => Choice::One(Box::new(map.place(place)?.clone())),
            None => Choice::All(Places::with(map, Client::builder().connect_timeout(CONNECT_TIMEOUT))),
        };
        let _ = CHOICE.set(chosen);
        Ok(())
    }

    /// The map that the command line names: a file, or the JSON document itself.
    pub(super) fn map(&self) -> Result<PlaceMap, Failure> {
        let given = self.places.as_deref().filter(|given| !given.trim().is_empty());
        let missing = || Failure::refused("no map of places given", "give --places FILE or set UNIQUEUE_PLACES");
        Ok(PlaceMap::from_json_or_file(given.ok_or_else(missing)?)?)
    }
}

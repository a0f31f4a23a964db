//! The connections that listen for several places of one database.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PlaceAddress, Places};
use crate::notify::ListenHub;

/// For each place the hub of its database, where it is not the only place there.
pub(super) fn hubs(places: &Places) -> Vec<Option<Arc<ListenHub>>> {
    let database = |place: &PlaceAddress| {
        let (socket, host, port, name) = place.database();
        let user = place.connect_options().get_username();
        format!("{socket:?} {host} {port} {name} {user}")
    };
    let mut schemas: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for place in places.map().places() {
        schemas.entry(database(place)).or_default().push(place);
    }
    let hub = |of: Vec<&PlaceAddress>| {
        let names = of.iter().map(|place| place.schema_name().clone()).collect();
        (of.len() > 1).then(|| Arc::new(ListenHub::new(of[0].connect_options().clone(), names)))
    };
    let hubs: BTreeMap<_, _> = schemas.into_iter().map(|(database, of)| (database, hub(of))).collect();
    places.map().places().map(|place| hubs.get(&database(place)).cloned().flatten()).collect()
}

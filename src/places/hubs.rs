//! The connections that listen for several places of one database.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Places;
use crate::notify::ListenHub;

/// For each place the hub of its database and user, where it is not the only place there.
pub(super) fn hubs(places: &Places) -> Vec<Option<Arc<ListenHub>>> {
    let mut indexes: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, place) in places.map().places().enumerate() {
        indexes.entry((place.database(), place.connect_options().get_username())).or_default().push(index);
    }
    let clients = &places.inner.clients;
    let mut hubs = vec![None; clients.len()];
    for of in indexes.into_values().filter(|of| of.len() > 1) {
        let schemas = of.iter().map(|index| clients[*index].schema().clone()).collect();
        let hub = Arc::new(ListenHub::new(clients[of[0]].own_connections(), schemas));
        of.into_iter().for_each(|index| hubs[index] = Some(Arc::clone(&hub)));
    }
    hubs
}

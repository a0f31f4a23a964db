//! Keys that two hashed places claim.

use std::collections::BTreeMap;

use super::Places;
use crate::client::time_limit;
use crate::ident::PlaceName;

impl Places {
    /// How many keys of each place [`Places::diagnose`] and `uniqueue places check` compare.
    pub const COMPARED_KEYS: u32 = 10_000;

    /// Finds unique keys that more than one of the hashed places claims, among the first `limit` keys of each in the order of
    /// their bytes. A kind that goes by its unique key never makes such keys. An insert that bypasses
    /// [`Places::insert`], such as by SQL in the wrong place, can. A place that does not
    /// answer within 10 s is left out.
    pub async fn doubled_keys(&self, limit: u32) -> Vec<(String, Vec<PlaceName>)> {
        let mut places: BTreeMap<String, Vec<PlaceName>> = BTreeMap::new();
        let hashed = (0..self.inner.clients.len()).filter(|index| self.map().identity(*index).hashed.is_some());
        let asked = hashed.map(|index| {
            let client = self.inner.clients[index].clone();
            let asking = async move {
                time_limit::within(time_limit::QUERY_TIMEOUT, client.claims().limit(limit).into_future()).await
            };
            (index, asking)
        });
        for (place, claims) in self.answers(asked.collect()).await {
            for holder in claims.into_iter().flatten() {
                places.entry(holder.claim.unique_key).or_default().push(place.clone());
            }
        }
        places.into_iter().filter(|(_, places)| places.len() > 1).collect()
    }
}

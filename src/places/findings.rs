//! Comparing places with each other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Places;
use crate::client::{Client, time_limit};
use crate::error::Result;
use crate::health::{Finding, places};
use crate::period::format_duration;
use crate::words::ident::PlaceName;
use crate::words::kind::KindRow;
use crate::words::queue::QueueSettings;
use crate::words::retention::Keep;

/// The most keys that are named.
const NAMED: usize = 20;

/// The members of a kind that may differ.
const REGISTRATION: [&str; 5] = ["name", "created_at", "registered_at", "registered_by", "changed_at"];

/// The settings of a place that are compared, by subject and name. A setting without a value is not among them.
type Facts = BTreeMap<(String, String), String>;

impl Places {
    /// How many keys of each place [`Places::diagnose`] and `uniqueue places check` compare.
    pub const COMPARED_KEYS: u32 = 10_000;

    /// Finds problems that no place sees by itself, as `uniqueue doctor --places` does:
    ///
    /// - places that do not answer, are not the place that the map says, or have another version of the schema;
    /// - among the places that share hashed values: queues whose settings differ, kinds that are registered differently, and
    ///   [keys that several of them claim](Places::doubled_keys), among the first 10,000 keys of each
    ///   ([`Places::COMPARED_KEYS`]).
    ///
    /// The problems of each place itself: [`Client::diagnose`]. It changes nothing. A place has 10 s for each answer.
    pub async fn diagnose(&self) -> Vec<Finding> {
        let (facts, doubled) = tokio::join!(self.ask(facts), self.doubled_keys(Self::COMPARED_KEYS));
        let mut findings: Vec<_> = doubled.iter().take(NAMED).map(|(key, of)| places::doubled_key(key, of)).collect();
        let mut compared = Vec::new();
        for (index, (place, facts)) in facts.into_iter().enumerate() {
            match facts {
                Err(error) => findings.push(places::refused(&place, &error)),
                Ok(Some(facts)) if self.map().is_hashed(index) => compared.push((place, facts)),
                Ok(_) => {}
            }
        }
        findings.extend(differences(&compared));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }

    /// Finds unique keys that more than one of the hashed places claims, among the first `limit` keys of each in the order of
    /// their bytes. A kind that goes by its unique key never makes such keys. An insert that bypasses
    /// [`Places::insert`], such as by SQL in the wrong place, can. A place that does not
    /// answer within 10 s is left out.
    pub async fn doubled_keys(&self, limit: u32) -> Vec<(String, Vec<PlaceName>)> {
        let hashed = self.inner.clients.iter().enumerate().filter(|(index, _)| self.map().is_hashed(*index));
        let asked = hashed.map(|(index, client)| {
            let client = client.clone();
            (index, async move {
                time_limit::within(time_limit::QUERY_TIMEOUT, client.claims().limit(limit).into_future()).await
            })
        });
        let mut places: BTreeMap<String, Vec<PlaceName>> = BTreeMap::new();
        for (place, claims) in self.answers(asked.collect()).await {
            for holder in claims.into_iter().flatten() {
                places.entry(holder.claim.unique_key).or_default().push(place.clone());
            }
        }
        places.into_iter().filter(|(_, places)| places.len() > 1).collect()
    }
}

/// `None`: the role may not see them.
async fn facts(client: Client) -> Result<Option<Facts>> {
    client.check_schema().await?;
    let reading = async {
        let (queues, kinds) = (client.queues().count_up_to(1).await?, client.kinds().list().await?);
        let mut facts = Facts::new();
        for queue in queues {
            let set = of_queue(&queue.settings).into_iter().filter_map(|(name, value)| Some((name, value?)));
            let subject = format!("queue {}", queue.settings.name);
            facts.extend(set.map(|(name, value)| ((subject.clone(), name.to_owned()), value)));
        }
        for kind in kinds {
            let subject = format!("kind {}", kind.name);
            facts.extend(of_kind(&kind).map(|(name, value)| ((subject.clone(), name), value)));
        }
        Ok(Some(facts))
    };
    match time_limit::within(time_limit::QUERY_TIMEOUT, reading).await {
        Err(error) if error.is_privilege_missing() => Ok(None),
        read => read,
    }
}

/// The settings of a queue but its hold, which passes.
fn of_queue(settings: &QueueSettings) -> [(&'static str, Option<String>); 10] {
    fn text(value: Option<impl ToString>) -> Option<String> {
        value.map(|value| value.to_string())
    }
    let keep = |keep: Keep| match keep {
        Keep::AsRunnersSay => None,
        Keep::Forever => Some("for ever".to_owned()),
        Keep::For(length) => Some(format_duration(length)),
    };
    [
        ("paused", text(settings.paused_at.map(|_| "set"))),
        ("limit", text(settings.limit)),
        ("group limit", text(settings.group_limit)),
        ("max_waiting", text(settings.max_waiting)),
        ("fair", text(settings.fair.then_some("set"))),
        ("rate", text(settings.rate)),
        ("group rate", text(settings.group_rate)),
        ("retention of completed jobs", keep(settings.keep_completed)),
        ("retention of cancelled jobs", keep(settings.keep_cancelled)),
        ("retention of discarded jobs", keep(settings.keep_discarded)),
    ]
}

/// The values that inserts take from a kind.
fn of_kind(kind: &KindRow) -> impl Iterator<Item = (String, String)> {
    let members = match serde_json::to_value(kind) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let set = members.into_iter().filter(|(name, value)| {
        !REGISTRATION.contains(&name.as_str()) && !matches!(value, Value::Null | Value::Bool(false))
    });
    set.map(|(name, value)| (name, value.to_string())).chain([("registered".to_owned(), "set".to_owned())])
}

fn differences(compared: &[(PlaceName, Facts)]) -> Vec<Finding> {
    let mut differing = BTreeMap::<&str, Vec<places::Setting<'_>>>::new();
    let settings: BTreeSet<_> = compared.iter().flat_map(|(_, facts)| facts.keys()).collect();
    for setting in settings {
        let mut values = BTreeMap::<&str, Vec<&PlaceName>>::new();
        for (place, facts) in compared {
            values.entry(facts.get(setting).map_or("not set", String::as_str)).or_default().push(place);
        }
        if values.len() > 1 {
            differing.entry(&setting.0).or_default().push((&setting.1, values));
        }
    }
    differing.into_iter().map(|(subject, settings)| places::settings(subject, &settings)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_one_place_lacks_is_named_with_the_places() {
        let place = |name: &str, settings: &[(&str, &str)]| {
            let of =
                |(name, value): &(&str, &str)| (("queue mail".to_owned(), (*name).to_owned()), (*value).to_owned());
            (PlaceName::new(name).unwrap(), settings.iter().map(of).collect::<Facts>())
        };
        let mut compared = vec![place("a", &[("limit", "5")]), place("b", &[("limit", "5")])];
        assert!(differences(&compared).is_empty());
        compared.push(place("c", &[("rate", "3/s")]));
        compared.push((PlaceName::new("d").unwrap(), Facts::default()));
        let found = differences(&compared);
        assert_eq!(
            (found.len(), found[0].code.as_str(), found[0].subject.as_str()),
            (1, "place_settings", "queue mail")
        );
        assert_eq!(found[0].seen, "limit is 5 in a, b, and not set in c, d; rate is 3/s in c, and not set in a, b, d");
    }
}

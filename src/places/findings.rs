//! Comparing places with each other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Places;
use crate::client::{Client, time_limit};
use crate::error::{Error, Result};
use crate::health::{Finding, places};
use crate::ident::PlaceName;
use crate::kind::KindRow;
use crate::queue::QueueSettings;
use crate::retention::Keep;

/// The most keys that are named.
const NAMED: usize = 20;

/// The parts of a place that are compared: the settings of its queues and its kinds, by name.
#[derive(Default)]
struct Facts(BTreeMap<String, BTreeMap<String, String>>);

impl Places {
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
                Ok(Some(facts)) if self.map().identity(index).hashed.is_some() => compared.push((place, facts)),
                Ok(_) => {}
            }
        }
        findings.extend(differences(&compared));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

/// `None`: the role may not see them.
async fn facts(client: Client) -> Result<Option<Facts>> {
    client.check_schema().await?;
    let reading = async { Ok::<_, Error>((client.queues().count_up_to(1).await?, client.kinds().list().await?)) };
    let asking = async {
        let (queues, kinds) = match reading.await {
            Err(error) if error.is_privilege_missing() => return Ok(None),
            read => read?,
        };
        let queues = queues.iter().map(|queue| (format!("queue {}", queue.settings.name), of_queue(&queue.settings)));
        let kinds = kinds.iter().map(|kind| (format!("kind {}", kind.name), of_kind(kind)));
        Ok(Some(Facts(queues.chain(kinds).collect())))
    };
    time_limit::within(time_limit::QUERY_TIMEOUT, asking).await
}

/// The settings that are not the default, but a hold, which passes.
fn of_queue(settings: &QueueSettings) -> BTreeMap<String, String> {
    let keep = |keep: Keep| match keep {
        Keep::AsRunnersSay => None,
        Keep::Forever => Some("for ever".to_owned()),
        Keep::For(length) => Some(crate::period::format_duration(length)),
    };
    let text = |value: Option<String>, name: &str| value.map(|value| (name.to_owned(), value));
    [
        text(settings.paused_at.map(|_| "set".to_owned()), "paused"),
        text(settings.limit.map(|limit| limit.to_string()), "limit"),
        text(settings.group_limit.map(|limit| limit.to_string()), "group limit"),
        text(settings.max_waiting.map(|limit| limit.to_string()), "max_waiting"),
        text(settings.fair.then(|| "set".to_owned()), "fair"),
        text(settings.rate.map(|rate| rate.to_string()), "rate"),
        text(settings.group_rate.map(|rate| rate.to_string()), "group rate"),
        text(keep(settings.keep_completed), "retention of completed jobs"),
        text(keep(settings.keep_cancelled), "retention of cancelled jobs"),
        text(keep(settings.keep_discarded), "retention of discarded jobs"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The values that inserts take from a kind.
fn of_kind(kind: &KindRow) -> BTreeMap<String, String> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(kind) else { return BTreeMap::new() };
    for registration in ["name", "registered_at", "registered_by", "changed_at"] {
        members.remove(registration);
    }
    let set = members.into_iter().filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)));
    set.map(|(name, value)| (name, value.to_string())).chain([("registered".to_owned(), "set".to_owned())]).collect()
}

fn differences(compared: &[(PlaceName, Facts)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subjects: BTreeSet<_> = compared.iter().flat_map(|(_, facts)| facts.0.keys()).collect();
    for subject in subjects {
        let names: BTreeSet<_> =
            compared.iter().filter_map(|(_, facts)| facts.0.get(subject)).flat_map(BTreeMap::keys).collect();
        let mut settings = places::Settings::new();
        for name in names {
            let values = settings.entry(name.clone()).or_default();
            for (place, facts) in compared {
                let value = facts.0.get(subject).and_then(|settings| settings.get(name));
                values.entry(value.map_or("not set", String::as_str).to_owned()).or_default().push(place);
            }
        }
        findings.extend(places::settings(subject, &settings));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::FindingCode;

    #[test]
    fn a_setting_that_one_place_lacks_is_named_with_the_places() {
        let place = |name: &str, settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            (PlaceName::new(name).unwrap(), Facts(BTreeMap::from([("queue mail".to_owned(), settings)])))
        };
        let mut compared = vec![place("a", &[("limit", "5")]), place("b", &[("limit", "5")])];
        assert!(differences(&compared).is_empty());
        compared.push(place("c", &[("rate", "3/s")]));
        compared.push((PlaceName::new("d").unwrap(), Facts::default()));
        let found = differences(&compared);
        assert_eq!(
            (found.len(), found[0].code, found[0].subject.as_str()),
            (1, FindingCode::PlaceSettings, "queue mail")
        );
        assert_eq!(found[0].seen, "limit is 5 in a, b, and not set in c, d; rate is 3/s in c, and not set in a, b, d");
    }
}

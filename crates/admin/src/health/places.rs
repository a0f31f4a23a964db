//! Comparing places with each other: problems that no place sees by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use uniqueue::{Client, Error, Keep, PlaceName, Places, QueueSettings, Result, format_duration};

use super::finding::{Finding, Remedy, Severity};
use crate::{Admin, KindRow};

/// How long a place has for each answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The most bytes of a value that a sentence shows.
const SHOWN: usize = 60;

/// How many keys of each place [`diagnose_places`] and `uniqueue places check` compare.
pub const COMPARED_KEYS: u32 = 10_000;

/// The most keys that are named.
const NAMED: usize = 20;

/// The members of a kind that may differ.
const REGISTRATION: [&str; 5] = ["name", "created_at", "registered_at", "registered_by", "changed_at"];

/// The settings of a place that are compared, by subject and name. A setting without a value is not among them.
type Facts = BTreeMap<(String, String), String>;

/// Finds problems that no place sees by itself, as `uniqueue doctor --places` does:
///
/// - places that do not answer, are not the place that the map says, or have another version of the schema;
/// - among the places that share hashed values: queues whose settings differ, kinds that are registered differently, and
///   [keys that several of them claim](doubled_keys), among the first 10,000 keys of each ([`COMPARED_KEYS`]).
///
/// The problems of each place itself: [`Admin::diagnose`]. It changes nothing. A place has 10 s for each answer.
pub async fn diagnose_places(places: &Places) -> Vec<Finding> {
    let (facts, doubled) = tokio::join!(places.ask(facts), doubled_keys(places, COMPARED_KEYS));
    let mut findings: Vec<_> = doubled.iter().take(NAMED).map(|(key, of)| doubled_key(key, of)).collect();
    let mut compared = Vec::new();
    for (place, facts) in facts {
        match facts {
            Err(error) => findings.push(refused(&place, &error)),
            Ok(Some(facts)) if places.map().is_hashed(&place) => compared.push((place, facts)),
            Ok(_) => {}
        }
    }
    findings.extend(differences(&compared));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Finds unique keys that more than one of the hashed places claims, among the first `limit` keys of each in the order of
/// their bytes. A kind that goes by its unique key never makes such keys. An insert that bypasses [`Places::insert`], such as by
/// SQL in the wrong place, can. A place that does not answer within 10 s is left out.
pub async fn doubled_keys(places: &Places, limit: u32) -> Vec<(String, Vec<PlaceName>)> {
    let claims = |client: Client| {
        let is_hashed = client.place().is_some_and(|place| places.map().is_hashed(place));
        async move {
            match is_hashed {
                true => Admin::new(&client).claims().limit(limit).timeout(ANSWER).await,
                false => Ok(Vec::new()),
            }
        }
    };
    let mut holders: BTreeMap<String, Vec<PlaceName>> = BTreeMap::new();
    for (place, claims) in places.ask(claims).await {
        for holder in claims.into_iter().flatten() {
            holders.entry(holder.claim.unique_key).or_default().push(place.clone());
        }
    }
    holders.into_iter().filter(|(_, places)| places.len() > 1).collect()
}

/// `None`: the role may not see them.
async fn facts(client: Client) -> Result<Option<Facts>> {
    client.check_schema().await?;
    let read = async {
        let queues = Admin::new(&client).queues().count_up_to(1).timeout(ANSWER).await?;
        Ok((queues, Admin::new(&client).kinds().timeout(ANSWER).await?))
    };
    let (queues, kinds) = match read.await {
        Err(error) if is_privilege_missing(&error) => return Ok(None),
        read => read?,
    };
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
}

fn is_privilege_missing(error: &Error) -> bool {
    matches!(error, Error::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42501"))
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
    let mut differing = BTreeMap::<&str, Vec<Setting<'_>>>::new();
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
    differing.into_iter().map(|(subject, differing)| differing_settings(subject, &differing)).collect()
}

/// A place that cannot be asked.
fn refused(place: &PlaceName, error: &Error) -> Finding {
    let (code, severity, advice) = match error {
        Error::PlaceDown { .. } => (
            "place_down",
            Severity::Warning,
            "See whether its server runs. Its jobs wait there, and no other place gets them meanwhile",
        ),
        Error::MapMismatch { .. } | Error::PlaceCopy { .. } | Error::PlaceMoved { .. } => (
            "place_mismatch",
            Severity::Critical,
            "Mend the URL, the schema or the hashed list of the map. A new place gets its name from `uniqueue places migrate`, a restored one from `uniqueue places adopt`",
        ),
        Error::NotMigrated { .. } | Error::NewerSchema { .. } | Error::IncompatibleSchema { .. } => (
            "place_version",
            Severity::Warning,
            "Run `uniqueue places migrate` with the newest version, and give that version to all processes",
        ),
        _ => ("check_failed", Severity::Warning, "See the log of its server"),
    };
    Finding::new(
        code,
        severity,
        format!("place {}", plain(place.as_str())),
        plain(&error.to_string()),
        Remedy::advice(advice),
    )
}

/// A setting whose values differ between places: its name, and by value the places that have it.
type Setting<'a> = (&'a str, BTreeMap<&'a str, Vec<&'a PlaceName>>);

/// The settings of a queue or a kind that differ between hashed places.
fn differing_settings(subject: &str, settings: &[Setting<'_>]) -> Finding {
    let of = |(setting, values): &Setting<'_>| {
        let each = values.iter().map(|(value, places)| {
            let end = value.floor_char_boundary(SHOWN);
            let more = if end < value.len() { "…" } else { "" };
            format!("{}{more} in {}", plain(&value[..end]), names(places.iter().copied()))
        });
        format!("{setting} is {}", each.collect::<Vec<_>>().join(", and "))
    };
    let advice = "Give it the same settings in each of the places that share hashed values: a job is worked by those of its own place";
    Finding::new(
        "place_settings",
        Severity::Warning,
        plain(subject),
        settings.iter().map(of).collect::<Vec<_>>().join("; "),
        Remedy::advice(advice),
    )
}

/// A key that several hashed places claim.
fn doubled_key(key: &str, places: &[PlaceName]) -> Finding {
    let advice = "Insert its jobs with `Places::insert`, or into the place of the key by hand. Cancel the jobs in the other places";
    Finding::new(
        "key_in_places",
        Severity::Critical,
        format!("key {}", plain(key)),
        format!("it is claimed in {}", names(places)),
        Remedy::advice(advice),
    )
}

fn names<'a>(places: impl IntoIterator<Item = &'a PlaceName>) -> String {
    places.into_iter().map(|place| plain(place.as_str())).collect::<Vec<_>>().join(", ")
}

/// A text on one line: it may hold control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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

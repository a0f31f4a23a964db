//! The effects of transitions, in the words of the page's table.

use support::prelude::*;

/// What a transition did to one job.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Effect {
    to: String,
    attempt: &'static str,
    scheduled_at: &'static str,
    claim: &'static str,
}

/// The transitions seen: their cause, from which states, to what effect. In the order they were driven.
#[derive(Default)]
pub(super) struct Seen {
    order: Vec<&'static str>,
    effects: HashMap<&'static str, BTreeMap<Effect, BTreeSet<String>>>,
}

impl Seen {
    pub(super) fn add(&mut self, who: &'static str, before: Option<&JobRow>, after: Option<&JobRow>) {
        if !self.order.contains(&who) {
            self.order.push(who);
        }
        let nothing = before.is_some_and(|before| {
            after.is_some_and(|after| {
                (before.state, before.attempt, before.scheduled_at) == (after.state, after.attempt, after.scheduled_at)
            })
        });
        if nothing {
            return;
        }
        let effect = Effect {
            to: after.map_or("gone".to_owned(), |after| after.state.to_string()),
            attempt: match (before, after) {
                (None, _) => "0",
                (_, None) => "",
                (Some(before), Some(after)) if after.attempt == before.attempt + 1 => "+ 1",
                (Some(before), Some(after)) if after.attempt + 1 == before.attempt => "− 1",
                (Some(before), Some(after)) => {
                    assert_eq!(before.attempt, after.attempt, "{who}");
                    ""
                }
            },
            scheduled_at: match (before, after) {
                (_, None) => "",
                (None, Some(after)) => schedule(after, "now", "as given"),
                (Some(before), Some(after)) if before.scheduled_at == after.scheduled_at => "",
                (Some(_), Some(after)) => schedule(after, "now", "later"),
            },
            claim: match (before.is_some_and(|before| before.claims), after.is_some_and(|after| after.claims)) {
                (false, false) => "",
                (true, true) => "kept",
                (true, false) => "given up",
                (false, true) => "taken",
            },
        };
        let from = before.map_or("–".to_owned(), |before| before.state.to_string());
        self.effects.entry(who).or_default().entry(effect).or_default().insert(from);
    }

    pub(super) fn table(&self) -> String {
        let mut text =
            String::from("| change | from | to | attempt | `scheduled_at` | claim |\n|---|---|---|---|---|---|\n");
        for who in &self.order {
            let effects = self.effects.get(who).unwrap_or_else(|| panic!("{who} does nothing"));
            for (effect, from) in effects {
                let from: Vec<_> = from.iter().map(String::as_str).collect();
                let Effect { to, attempt, scheduled_at, claim } = effect;
                let row = format!("| {who} | {} | {to} | {attempt} | {scheduled_at} | {claim} |\n", from.join(", "));
                text.push_str(&row.replace("|  |", "| |").replace("|  |", "| |"));
            }
        }
        text
    }
}

/// Whether a job's time is about now, or lies ahead.
fn schedule(row: &JobRow, now: &'static str, ahead: &'static str) -> &'static str {
    let is_ahead = row.scheduled_at > time::OffsetDateTime::now_utc() + HOUR / 6;
    if is_ahead { ahead } else { now }
}

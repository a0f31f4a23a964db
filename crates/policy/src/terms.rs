//! The terms of a claim, the rules between them, and the queues whose terms a policy can start from.

use std::time::Duration;

use crate::conflict::{OnConflict, OnReentry, Until};
use crate::length::{Length, check_window};
use crate::scope::UniqueScope;
use crate::states::{JobState, StateSet};
use crate::update::{Update, UpdateArgs};
use crate::word::Problem;

/// All of a policy except what makes its key, and the window, which is part of the key.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Terms {
    /// The states in which the job claims its key.
    pub states: StateSet,
    /// The claim ends this long after the insert.
    pub period: Option<Length>,
    /// The claim ends this long after the job is due.
    pub ttl: Option<Length>,
    /// The length of the windows.
    pub window: Option<Duration>,
    /// Whether the start of the job ends the claim.
    pub until_start: bool,
    /// The reaction of the job if it comes back and another job has its key.
    pub on_reentry: OnReentry,
    /// The answer to a duplicate.
    pub on_conflict: OnConflict,
    /// The changes by a duplicate. Counts only where `on_conflict` is `Update`.
    pub update: Update,
}

impl Terms {
    /// Terms without a time limit.
    #[must_use]
    pub const fn new(states: StateSet, on_conflict: OnConflict) -> Self {
        Self {
            states,
            period: None,
            ttl: None,
            window: None,
            until_start: false,
            on_reentry: OnReentry::GoOn,
            on_conflict,
            update: Update::latest(),
        }
    }

    /// Adds Faktory's `unique_until`. Success is a set of states, the start is not.
    pub const fn set_until(&mut self, until: Until) {
        match until {
            Until::Success => {
                self.states = StateSet::ALL_BUT_COMPLETED;
                self.until_start = false;
            }
            Until::Start => self.until_start = true,
        }
    }

    /// The rules that are broken, always in the same order. The SQL function `_check_claim_members` has the same rules.
    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        const RULES: [fn(&Terms) -> Option<Problem>; 9] = [
            states_are_named,
            lengths_are_within_limits,
            start_ends_a_claim,
            time_has_one_limit,
            run_again_ends_at_the_start,
            debounce_has_an_end,
            debounce_is_shorter_than_its_end,
            only_arrays_have_items,
            period_outlasts_the_longest_delay,
        ];
        RULES.into_iter().filter_map(|rule| rule(self))
    }

    /// The changes that a duplicate makes to its holder. `None`: `on_conflict` is not `update`.
    #[must_use]
    pub const fn changes(&self) -> Option<Update> {
        match self.on_conflict {
            OnConflict::Update => Some(self.update),
            _ => None,
        }
    }
}

words! {
    member "like";

    /// A queue whose defaults stand where a policy has no member of its own.
    pub enum Preset {
        /// Faktory, whose `unique_for` is the policy's `ttl`.
        Faktory = "faktory",
        /// The Open Job Spec.
        Ojs = "ojs",
        /// River, whose defaults alone enforce nothing.
        River = "river",
        /// Zizq.
        Zizq = "zizq",
    }
}

impl Preset {
    /// The states in which a job claims its key, and the answer to a duplicate.
    #[must_use]
    pub const fn terms(self) -> Terms {
        match self {
            Self::Faktory => Terms::new(StateSet::ALL_BUT_COMPLETED, OnConflict::Reject),
            Self::Ojs => Terms::new(UniqueScope::Active.states(), OnConflict::Reject),
            Self::River => Terms::new(UniqueScope::Completed.states(), OnConflict::Ignore),
            Self::Zizq => Terms::new(UniqueScope::Queued.states(), OnConflict::Ignore),
        }
    }

    /// The parts that the key is made from, as a document's `keys` name it.
    #[must_use]
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Faktory => &["type", "queue", "args"],
            Self::Ojs | Self::River => &["type"],
            Self::Zizq => &["type", "args"],
        }
    }
}

fn states_are_named(terms: &Terms) -> Option<Problem> {
    let hint = "name the states in which the job claims its key";
    terms.states.is_empty().then(|| Problem::new("states", "must name at least one state: []", hint))
}

fn lengths_are_within_limits(terms: &Terms) -> Option<Problem> {
    let update = terms.changes().unwrap_or_default();
    let lengths = [
        ("period", terms.period.map(Length::check)),
        ("ttl", terms.ttl.map(Length::check)),
        ("debounce", update.delay.map(|delay| Length::from(delay).check())),
        ("max_delay", update.max_delay.map(|delay| Length::from(delay).check())),
        ("window", terms.window.map(check_window)),
    ];
    let (member, mut problem) = lengths.into_iter().find_map(|(member, checked)| Some((member, checked?.err()?)))?;
    let given = problem.item.take().unwrap_or_default();
    Some(Problem { member, ..problem }.with(member, given))
}

fn start_ends_a_claim(terms: &Terms) -> Option<Problem> {
    let is_dead = terms.until_start && terms.states.is_disjoint(UniqueScope::Queued.states());
    is_dead.then(|| {
        let reason = format!("start ends the claim at the fetch, and the states hold none before it: {}", terms.states);
        Problem::new("until", reason, "add a state in which jobs wait, such as available, or remove until")
    })
}

fn time_has_one_limit(terms: &Terms) -> Option<Problem> {
    let window = terms.window.map(Length::from);
    let mut limits = [("period", terms.period), ("ttl", terms.ttl), ("window", window)]
        .into_iter()
        .filter_map(|(member, length)| Some((member, length?)));
    let ((first, length), (second, other)) = (limits.next()?, limits.next()?);
    let reason = format!("stands beside {first}, and only one of period, ttl and window may limit time");
    let hint = "period counts from the insert, ttl from when the job is due, window by the calendar";
    Some(Problem::new(second, reason, hint).with(second, other).with(first, length))
}

fn run_again_ends_at_the_start(terms: &Terms) -> Option<Problem> {
    let covers_run = terms.states.contains(JobState::Running) && !terms.until_start;
    (terms.on_conflict == OnConflict::RunAgain && covers_run).then(|| {
        let reason = format!("run_again needs a scope without running: {}", terms.states);
        Problem::new("on_conflict", reason, "use the scope queued: a job that runs has read its data already")
    })
}

fn debounce_has_an_end(terms: &Terms) -> Option<Problem> {
    let update = terms.changes().filter(|update| update.max_delay.is_none())?;
    let hint = "give the longest wait, such as 1m: events that never end would hold the job up";
    Some(Problem::new("debounce", "needs max_delay", hint).with("debounce", Length::from(update.delay?)))
}

fn debounce_is_shorter_than_its_end(terms: &Terms) -> Option<Problem> {
    let update = terms.changes()?;
    let (delay, max_delay) = (update.delay?, update.max_delay?);
    (delay >= max_delay).then(|| {
        Problem::new("max_delay", "must be longer than debounce", "raise max_delay")
            .with("max_delay", Length::from(max_delay))
            .with("debounce", Length::from(delay))
    })
}

fn only_arrays_have_items(terms: &Terms) -> Option<Problem> {
    let update = terms.changes()?;
    let max_items = update.max_items?;
    if !(1..=Update::MOST_ITEMS).contains(&max_items) {
        let reason = format!("must be 1 to {}: {max_items}", Update::MOST_ITEMS);
        return Some(Problem::new("max_items", reason, "leave it out for 1000"));
    }
    (update.args != UpdateArgs::Append).then(|| {
        let mut problem = Problem::new("max_items", "needs update append", "add it, or remove max_items");
        problem.values.push(("max_items", max_items.to_string()));
        problem
    })
}

fn period_outlasts_the_longest_delay(terms: &Terms) -> Option<Problem> {
    let (max_delay, period) = (terms.changes()?.max_delay?, terms.period?);
    (period.shortest() < max_delay).then(|| {
        Problem::new("max_delay", "must not be longer than period", "raise period, or lower max_delay")
            .with("max_delay", Length::from(max_delay))
            .with("period", period)
    })
}

//! The consistency of the unique options.
//!
//! The rules between the terms of a claim are those of the library, from `uniqueue-policy`. Other rules are about the type
//! and the attribute.
//!
//! A combination that can never work, or is surely a mistake, is an error. A combination that works
//! but gives up a claim unexpectedly is a warning, which `gaps = "allowed"` turns off.

use proc_macro2::Span;
use uniqueue_policy::{
    DEFAULT_RETENTION_OF_COMPLETED, JobState, OnConflict, Preset, Problem, StateSet, Terms, UniqueScope, Until, Update,
    UpdateArgs,
};

use crate::entries::Setting;
use crate::fields::{Fields, Marked};
use crate::problems::{Problems, listed};
use crate::unique::{Args, Unique};

/// The states of jobs that have yet to start.
const WAITING: StateSet = UniqueScope::Queued.states();

/// A warning about a valid option.
pub(crate) struct Warning {
    pub(crate) span: Span,
    pub(crate) note: String,
}

/// Reports options that contradict each other or can never work.
pub(crate) fn check(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    check_args(unique, fields, problems);
    check_key(unique, fields, problems);
    check_append(unique, fields, problems);
    check_states(unique, problems);
    check_terms(unique, problems);
}

fn check_args(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let Some(args) = &unique.args else { return };
    if let Some(Marked { name, .. }) = fields.unique.first() {
        let these = match args.value {
            Some(Args::All) => "all args",
            Some(Args::Selected(_)) => "selected args",
            None => "args",
        };
        problems.add(
            args.span,
            format!("{these} or marked fields, not both: field `{name}` is marked unique"),
            "keep the marks on the fields, or keep this",
        );
    }
    let (Some(Args::Selected(names)), Some(members)) = (&args.value, &fields.members) else {
        return;
    };
    for name in names {
        let member = member_of(&name.value());
        if !members.contains(&member) {
            let hint = match members.as_slice() {
                [] => "they have none".to_owned(),
                members => format!("they have {}", listed(members.iter().map(String::as_str), "and")),
            };
            problems.add(name.span(), format!("the args have no member: {member:?}"), hint);
        }
    }
}

/// The member of the args that a selection names, or that its JSON Pointer begins with.
fn member_of(selection: &str) -> String {
    match selection.strip_prefix('/') {
        None => selection.to_owned(),
        Some(pointer) => {
            let token = pointer.split('/').next().unwrap_or_default();
            token.replace("~1", "/").replace("~0", "~")
        }
    }
}

fn check_key(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let is_faktory = has_value(&unique.like, Preset::Faktory);
    let has_own_key = is_faktory || has_value(&unique.like, Preset::Zizq);
    let is_selective = unique.args.is_some()
        || !fields.unique.is_empty()
        || unique.queue.is_some()
        || unique.meta.is_some()
        || has_own_key
        || !unique.is_valid;
    if let Some(span) = unique.exclude_kind {
        if unique.kind.is_some() {
            problems.add(span, "`kind` and `exclude_kind` contradict each other", "remove one of the two");
        } else if !is_selective {
            problems.add(
                span,
                "`exclude_kind` with nothing else in the key: \
                 jobs of all kinds would share one key",
                "add `args`, `queue` or `meta(\"...\")`, or mark fields `#[job(unique)]`",
            );
        }
    } else if !is_selective && unique.kind.is_none() {
        problems.add(
            unique.span,
            "`unique` does not say what makes two jobs the same",
            "add `args` or `args(\"...\")`, `queue`, `meta(\"...\")`, \
             or `kind` for one job of this kind at a time; or mark fields `#[job(unique)]`",
        );
    }
    let Some(like) = &unique.like else { return };
    let has_states = unique.scope.is_some() || unique.states.is_some() || unique.until.is_some();
    if has_value(&unique.like, Preset::River) && !is_selective && unique.limits.is_empty() && !has_states {
        problems.add(
            like.span,
            "`like = \"river\"` enforces nothing by the kind alone",
            "River takes empty options for none: add `args`, `queue`, `window` (or another limit), `until` or `states(...)`",
        );
    }
    if !is_faktory {
        return;
    }
    if unique.limits.is_empty() {
        problems.add(
            like.span,
            "`like = \"faktory\"` needs `ttl`: Faktory's `unique_for`",
            "add a duration such as `ttl = \"10m\"`",
        );
    }
    for limit in unique.limits.iter().filter(|limit| limit.name != "ttl") {
        problems.add(
            limit.span,
            format!("`like = \"faktory\"` takes no `{}`", limit.name),
            "write `ttl`: Faktory's `unique_for`",
        );
    }
}

/// The rules of every policy.
fn check_terms(unique: &Unique, problems: &mut Problems) {
    if !unique.is_valid {
        return;
    }
    let span_of = |setting: Option<Span>| setting.unwrap_or(unique.span);
    let mut report = |problem: Problem| {
        let limit = unique.limits.iter().find(|limit| limit.name == problem.member);
        let span = span_of(match problem.member {
            "states" | "until" => unique.states.as_ref().map(|it| it.span).or(unique.until.as_ref().map(|it| it.span)),
            "on_conflict" => unique.on_conflict.as_ref().map(|it| it.span),
            "update" => unique.update.as_ref().map(|it| it.span),
            "debounce" => unique.debounce.as_ref().map(|it| it.span),
            "max_delay" => unique.max_delay.as_ref().map(|it| it.span),
            "max_items" => unique.max_items.as_ref().map(|it| it.span),
            _ => limit.map(|limit| limit.span),
        });
        problems.add(span, format!("invalid unique policy: {}: {problem}", problem.member), problem.hint);
    };
    let on_conflict = value(&unique.on_conflict);
    if let (Some(other), Some(member)) = (on_conflict, of_update(unique))
        && other != OnConflict::Update
    {
        report(Problem::needs_update(member, other));
    }
    terms(unique).problems().for_each(report);
}

/// The first option that says how a duplicate changes its holder.
fn of_update(unique: &Unique) -> Option<&'static str> {
    let given = [
        ("update", unique.update.is_some()),
        ("debounce", unique.debounce.is_some()),
        ("max_delay", unique.max_delay.is_some()),
        ("max_items", unique.max_items.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}

/// The terms that the options make. The options must be valid.
fn terms(unique: &Unique) -> Terms {
    let like = value(&unique.like);
    let mut terms = Terms::new(
        like.map_or(UniqueScope::Active.states(), Preset::states),
        like.map_or(OnConflict::Ignore, Preset::on_conflict),
    );
    for limit in &unique.limits {
        match limit.name.as_str() {
            "period" => terms.period = limit.length,
            "ttl" => terms.ttl = limit.length,
            _ => terms.window = limit.length.map(|length| length.parts().1),
        }
    }
    if let Some(until) = value(&unique.until) {
        terms.set_until(until);
    }
    if let Some(states) = value(&unique.states).or(value(&unique.scope).map(UniqueScope::states)) {
        terms.states = states;
    }
    if let Some(on_conflict) = value(&unique.on_conflict).or(of_update(unique).map(|_| OnConflict::Update)) {
        terms.on_conflict = on_conflict;
    }
    let update = Update::of(value(&unique.update).unwrap_or(UpdateArgs::Latest));
    terms.update = update.with_members(value(&unique.debounce), value(&unique.max_delay), value(&unique.max_items));
    terms
}

/// `append` must leave the members alone that the key is made from.
fn check_append(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let Some(update) = unique.update.as_ref().filter(|_| has_value(&unique.update, UpdateArgs::Append)) else { return };
    let key_holds_args = has_value(&unique.like, Preset::Faktory) || has_value(&unique.like, Preset::Zizq);
    let selected: Vec<_> = match unique.args.as_ref().map(|args| args.value.as_ref()) {
        Some(Some(Args::Selected(names))) => names.iter().map(|name| (member_of(&name.value()), name.span())).collect(),
        None if !fields.unique.is_empty() || !key_holds_args => {
            fields.unique.iter().map(|marked| (marked.name.clone(), marked.span)).collect()
        }
        Some(Some(Args::All)) | None => {
            return problems.add(
                update.span,
                "`append` would change the args, which are all in the key",
                "select the args of the key with `args(\"...\")`, or mark fields `#[job(unique)]`",
            );
        }
        // Invalid in itself.
        Some(None) => return,
    };
    for (member, span) in selected {
        if fields.named.iter().any(|named| named.name == member && named.is_list) {
            problems.add(
                span,
                format!("`append` would change a member that the key is made from: {member:?}"),
                "make the key from other members, or write `update = \"latest\"`",
            );
        }
    }
}

fn check_states(unique: &Unique, problems: &mut Problems) {
    let until_success = unique.until.as_ref().filter(|_| has_value(&unique.until, Until::Success));
    if let (Some(until), true) = (until_success, unique.scope.is_some() || unique.states.is_some()) {
        problems.add(
            until.span,
            "`until = \"success\"` cannot be combined with `scope` or `states`",
            "it stands for all states but `completed`: keep one of the two",
        );
    }
    let Some(setting) = &unique.states else {
        return;
    };
    if let Some(scope) = &unique.scope {
        problems.add(
            scope.span,
            "`scope` and `states` cannot be combined",
            "a scope is a set of states with a name: keep one of the two",
        );
    }
    let Some(states) = setting.value else { return };
    let replaces = [OnConflict::Replace, OnConflict::ReplaceExceptSchedule]
        .into_iter()
        .any(|choice| has_value(&unique.on_conflict, choice));
    if replaces && states == JobState::Running.into() {
        problems.add(
            setting.span,
            "no job could ever be replaced: \
             a running job is not, and no other state claims the key",
            "add the states of waiting jobs, or write `on_conflict = \"reject\"`",
        );
    }
}

/// Returns the warning about a policy, unless `gaps = "allowed"`.
pub(crate) fn warning(unique: &Unique) -> Option<Warning> {
    if unique.allows_gaps {
        return None;
    }
    let (span, note) = match has_value(&unique.until, Until::Start) {
        true => dead_states(unique),
        false => gap(unique).or_else(|| short_retention(unique)),
    }?;
    Some(Warning { span, note: format!("{note}; write `gaps = \"allowed\"` if that is meant") })
}

/// States that `until = "start"` makes pointless.
fn dead_states(unique: &Unique) -> Option<(Span, String)> {
    const AFTER_START: StateSet = StateSet::of(&[JobState::Completed, JobState::Running]);

    let (span, named) = match (&unique.states, &unique.scope) {
        (Some(states), _) => (states.span, states.value?),
        // Every scope from `active` on contains `running`.
        (None, Some(scope)) => (scope.span, scope.value?.states().without(JobState::Running)),
        (None, None) => return None,
    };
    let dead = named.intersection(AFTER_START);
    (!dead.is_empty()).then(|| {
        let note = format!(
            "no job claims its key while {}, \
             since `until = \"start\"` gives the claim up for good",
            listed_states(dead, "or"),
        );
        (span, note)
    })
}

fn gap(unique: &Unique) -> Option<(Span, String)> {
    let setting = unique.states.as_ref()?;
    let states = setting.value?;
    let gap = states.gap();
    let note = if states.is_disjoint(WAITING) {
        "these states leave out every waiting one, \
         so duplicates inserted before the job starts are all stored"
            .to_owned()
    } else if !gap.is_empty() {
        format!(
            "these states have a gap: the claim is given up while the job is {}, \
             and taken back afterwards only if no other job took the key",
            listed_states(gap, "or"),
        )
    } else {
        return None;
    };
    Some((setting.span, note))
}

/// A window that is longer than completed jobs are kept. A `period` or a `ttl` keeps its job, and so its claim.
fn short_retention(unique: &Unique) -> Option<(Span, String)> {
    let Terms { states, window, .. } = terms(unique);
    let outlives = window.is_some_and(|window| window > DEFAULT_RETENTION_OF_COMPLETED);
    let limit = unique.limits.first().filter(|_| outlives && states.contains(JobState::Completed))?;
    let note = "this window outlives the claims of completed jobs, which by default are deleted after a day: \
                keep them longer with the retention of the runners or the queue";
    Some((limit.span, note.to_owned()))
}

fn listed_states(states: StateSet, last: &str) -> String {
    listed(states.iter().map(JobState::as_str), last)
}

/// The value of an option that is set.
fn value<T: Copy>(setting: &Option<Setting<T>>) -> Option<T> {
    setting.as_ref().and_then(|setting| setting.value)
}

/// Whether an option is set to a value.
fn has_value<T: PartialEq>(setting: &Option<Setting<T>>, wanted: T) -> bool {
    setting.as_ref().and_then(|setting| setting.value.as_ref()).is_some_and(|value| *value == wanted)
}

//! The consistency of the unique options.
//!
//! A combination that can never work, or is surely a mistake, is an error. A combination that works
//! but gives up a claim unexpectedly is a warning, which `gaps = "allowed"` turns off.

use proc_macro2::Span;

use crate::entries::Setting;
use crate::fields::{Fields, Marked};
use crate::problems::{Problems, listed};
use crate::states::{State, States};
use crate::unique::{Args, Unique};
use crate::unique_values::{Gaps, Like, OnConflict, Scope, Until, Update};

/// A warning about a valid option.
pub(crate) struct Warning {
    pub(crate) span: Span,
    pub(crate) note: String,
}

/// Reports options that contradict each other or can never work.
pub(crate) fn check(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    check_args(unique, fields, problems);
    check_key(unique, fields, problems);
    check_limits(unique, problems);
    check_update(unique, problems);
    check_append(unique, fields, problems);
    check_run_again(unique, problems);
    check_states(unique, problems);
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
    let is_faktory = has_value(&unique.like, Like::Faktory);
    let has_own_key = is_faktory || has_value(&unique.like, Like::Zizq);
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
    if has_value(&unique.like, Like::River) && !is_selective && unique.limits.is_empty() && !has_states {
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

fn check_limits(unique: &Unique, problems: &mut Problems) {
    if let [first, others @ ..] = &unique.limits[..] {
        for other in others {
            problems.add(
                other.span,
                format!("`{}` and `{}` cannot be combined", first.name, other.name),
                "keep one: `period` counts from the job's creation, \
                 `ttl` from when it is due, `window` by the calendar",
            );
        }
    }
}

/// `run_again` needs a claim that ends when the job starts.
fn check_run_again(unique: &Unique, problems: &mut Problems) {
    let Some(on_conflict) =
        unique.on_conflict.as_ref().filter(|_| has_value(&unique.on_conflict, OnConflict::RunAgain))
    else {
        return;
    };
    let ends_at_start = has_value(&unique.until, Until::Start)
        || has_value(&unique.scope, Scope::Queued)
        || unique
            .states
            .as_ref()
            .is_some_and(|set| set.value.is_none_or(|set| !set.meets(States::of(&[State::Running]))))
        || (unique.scope.is_none() && unique.states.is_none() && has_value(&unique.like, Like::Zizq));
    if !ends_at_start {
        problems.add(
            on_conflict.span,
            "`run_again` needs a claim without `running`",
            "add `scope = \"queued\"`: a job that runs has read its data already",
        );
    }
}

fn check_update(unique: &Unique, problems: &mut Problems) {
    let wants = unique.update.as_ref().map(|update| update.span).or(unique.debounce.as_ref().map(|it| it.span));
    if let (Some(span), Some(on_conflict)) = (wants, &unique.on_conflict)
        && on_conflict.value.is_some_and(|word| word != OnConflict::Update)
    {
        problems.add(span, "`update` and `debounce` need `on_conflict = \"update\"`", "remove `on_conflict`");
    }
    match (&unique.debounce, &unique.max_delay) {
        (Some(debounce), None) => problems.add(
            debounce.span,
            "`debounce` needs `max_delay`",
            "add the longest wait, such as `max_delay = \"1m\"`: without it events that never end would hold the job up",
        ),
        (None, Some(max_delay)) => problems.add(max_delay.span, "`max_delay` needs `debounce`", "add `debounce = \"5s\"`"),
        (Some(debounce), Some(max_delay)) => {
            if let (Some(delay), Some(longest)) = (debounce.value, max_delay.value)
                && delay >= longest
            {
                problems.add(max_delay.span, "`max_delay` must be longer than `debounce`", "raise `max_delay`");
            }
        }
        (None, None) => {}
    }
    let appends = has_value(&unique.update, Update::Append);
    if let (Some(max_items), false) = (&unique.max_items, appends) {
        problems.add(max_items.span, "`max_items` needs `update = \"append\"`", "add it, or remove `max_items`");
    }
}

/// `append` must leave the members alone that the key is made from.
fn check_append(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let Some(update) = unique.update.as_ref().filter(|_| has_value(&unique.update, Update::Append)) else { return };
    let key_holds_args = has_value(&unique.like, Like::Faktory) || has_value(&unique.like, Like::Zizq);
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
    if has_value(&unique.until, Until::Start) && !states.meets(States::WAITING) {
        problems.add(
            setting.span,
            "no job would ever claim its key: \
             `until = \"start\"` ends every claim before these states",
            format!("add {} to the states, or remove `until`", listed(States::WAITING.names(), "or")),
        );
    }
    let replaces = [OnConflict::Replace, OnConflict::ReplaceExceptSchedule]
        .into_iter()
        .any(|choice| has_value(&unique.on_conflict, choice));
    if replaces && states == States::of(&[State::Running]) {
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
    if has_value(&unique.gaps, Gaps::Allowed) {
        return None;
    }
    let (span, note) = if has_value(&unique.until, Until::Start) {
        dead_states(unique)?
    } else {
        let setting = unique.states.as_ref()?;
        (setting.span, gap(setting.value?)?)
    };
    let note = format!("{note}; write `gaps = \"allowed\"` if that is meant");
    Some(Warning { span, note })
}

/// States that `until = "start"` makes pointless.
fn dead_states(unique: &Unique) -> Option<(Span, String)> {
    let after_start = States::of(&[State::Completed, State::Running]);
    let (span, named) = match (&unique.states, &unique.scope) {
        (Some(states), _) => (states.span, states.value?),
        (None, Some(scope)) => match scope.value? {
            // Both contain `running` only because every scope from `active` on does.
            Scope::Queued | Scope::Active => return None,
            Scope::Completed | Scope::Exists => (scope.span, States::of(&[State::Completed])),
        },
        (None, None) => return None,
    };
    let dead = after_start.iter().filter(|state| named.contains(*state));
    let dead = States::of(&dead.collect::<Vec<_>>());
    (dead != States::NONE).then(|| {
        let note = format!(
            "no job claims its key while {}, \
             since `until = \"start\"` gives the claim up for good",
            listed(dead.names(), "or"),
        );
        (span, note)
    })
}

fn gap(states: States) -> Option<String> {
    if !states.meets(States::WAITING) {
        return Some(
            "these states leave out every waiting one, \
             so duplicates inserted before the job starts are all stored"
                .to_owned(),
        );
    }
    let gap = states.gap();
    (gap != States::NONE).then(|| {
        format!(
            "these states have a gap: the claim is given up while the job is {}, \
             and taken back afterwards only if no other job took the key",
            listed(gap.names(), "or"),
        )
    })
}

/// Whether an option is set to a value.
fn has_value<T: PartialEq>(setting: &Option<Setting<T>>, wanted: T) -> bool {
    setting.as_ref().and_then(|setting| setting.value.as_ref()).is_some_and(|value| *value == wanted)
}

//! What the options say about the type and to each other.
//!
//! The rules of every policy are those of its reader in `uniqueue-policy`. A combination that works, but gives up a claim
//! unexpectedly, is a warning, which `gaps = "allowed"` turns off.

use proc_macro2::Span;
use uniqueue_policy::{DEFAULT_RETENTION_OF_COMPLETED, JobState, Part, StateSet, UniqueScope};

use crate::attributes::{Group, JobAttributes};
use crate::fields::Fields;
use crate::options::Value;
use crate::problems::{Problems, listed, suggestion};
use crate::unique::Unique;

/// The states of jobs that have yet to start.
const WAITING: StateSet = UniqueScope::Queued.states();

/// Reports options that contradict each other or can never work.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    if let Some(unique) = &attributes.unique {
        check_args(unique, fields, problems);
        check_key(unique, fields, problems);
        check_append(unique, fields, problems);
        check_states(unique, problems);
        unique.check(fields, problems);
    }
    check_group(attributes, fields, problems);
    check_one_at_a_time(attributes, problems);
    check_place(attributes, fields, problems);
}

fn check_args(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let Some(args) = unique.options.find("args") else { return };
    if let Some(marked) = fields.marked().next() {
        let these = if matches!(args.value, Value::List(_)) { "selected args" } else { "all args" };
        problems.add(
            args.span,
            format!("{these} or marked fields, not both: field `{}` is marked unique", marked.name),
            "keep the marks on the fields, or keep this",
        );
    }
    if let Value::List(Some(names)) = &args.value {
        for (name, span) in names.iter().filter(|(name, _)| !name.is_empty()) {
            check_member(name, *span, fields, &[], problems);
        }
    }
}

/// Reports a selection of a member that the args do not have, where `others` can be named, too.
fn check_member(selector: &str, span: Span, fields: &Fields, others: &[&str], problems: &mut Problems) {
    let (part, Some(members)) = (Part::new(selector, true), &fields.members) else { return };
    if part.problem().is_none() && !members.iter().any(|known| known == part.member()) {
        let known = members.iter().map(String::as_str).chain(others.iter().copied());
        let hint = suggestion(part.member(), known);
        problems.add(span, format!("the args have no member: {:?}", part.member()), hint);
    }
}

/// Reports a key that contradicts itself or says nothing. An invalid option might have said it.
fn check_key(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let options = &unique.options;
    if let (Some(span), true) = (options.span_of("exclude_kind"), options.has(&["kind"])) {
        return problems.add(span, "`kind` and `exclude_kind` contradict each other", "remove one of the two");
    }
    let is_selective = fields.marked().next().is_some()
        || options.has(&["args", "queue", "meta"])
        || matches!(options.text("like"), Some("faktory" | "zizq"))
        || !unique.is_valid;
    if is_selective {
        return;
    }
    // With a window the key is not empty, and means nothing.
    if let (Some(span), true) = (options.span_of("exclude_kind"), options.has(&["window"])) {
        problems.add(
            span,
            "`exclude_kind` with nothing else in the key: jobs of all kinds would share one key",
            "add `args`, `queue` or `meta(\"...\")`, or mark fields `#[job(unique)]`",
        );
    } else if !options.has(&["kind", "exclude_kind"]) {
        problems.add(
            unique.span,
            "`unique` does not say what makes two jobs the same",
            "add `args` or `args(\"...\")`, `queue`, `meta(\"...\")`, \
             or `kind` for one job of this kind at a time; or mark fields `#[job(unique)]`",
        );
    }
    if let Some(like) = options.find("like").filter(|_| !unique.policy(fields).0.is_enforced) {
        problems.add(
            like.span,
            "`like = \"river\"` enforces nothing by the kind alone",
            "River takes empty options for none: add `args`, `queue`, `window` (or another limit), `until` or `states(...)`",
        );
    }
}

/// `append` must leave the members alone that the key is made from.
fn check_append(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    if unique.options.text("update") != Some("append") {
        return;
    }
    let selected: Vec<_> = match unique.options.find("args").map(|args| &args.value) {
        Some(Value::List(Some(names))) => {
            names.iter().map(|(name, span)| (Part::new(name, true).member().to_owned(), *span)).collect()
        }
        _ => fields.marked().filter_map(|marked| Some((marked.name.clone(), marked.mark?))).collect(),
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
    let options = &unique.options;
    let (until, states) = (options.find("until"), options.find("states"));
    if let Some(until) = until.filter(|_| options.text("until") == Some("success") && options.has(&["scope", "states"]))
    {
        problems.add(
            until.span,
            "`until = \"success\"` cannot be combined with `scope` or `states`",
            "it stands for all states but `completed`: keep one of the two",
        );
    }
    let replaces = matches!(options.text("on_conflict"), Some("replace" | "replace_except_schedule"));
    if let Some((span, Value::List(Some(names)))) = states.map(|states| (states.span, &states.value))
        && replaces
        && !names.is_empty()
        && names.iter().all(|(name, _)| name == "running" || name == "active")
    {
        problems.add(
            span,
            "no job could ever be replaced: a running job is not, and no other state claims the key",
            "add the states of waiting jobs, or write `on_conflict = \"reject\"`",
        );
    }
}

/// Returns the place and the text of the warning about a policy, unless `gaps = "allowed"`.
pub(crate) fn warning(unique: &Unique, fields: &Fields) -> Option<(Span, String)> {
    if unique.options.has(&["gaps"]) {
        return None;
    }
    let terms = unique.policy(fields).0.terms;
    let span = unique.options.span_of("states").or(unique.options.span_of("scope"));
    let (span, note) = if terms.until_start {
        span.zip(dead_states(terms.states, unique.options.has(&["scope"])))
    } else {
        let gap = unique.options.span_of("states").zip(gap(terms.states));
        gap.or_else(|| unique.options.span_of("window").zip(short_retention(terms.states, terms.window)))
    }?;
    Some((span, format!("{note}; write `gaps = \"allowed\"` if that is meant")))
}

/// States that `until = "start"` makes pointless. Every scope from `active` on contains `running`.
fn dead_states(states: StateSet, is_scope: bool) -> Option<String> {
    const AFTER_START: StateSet = StateSet::of(&[JobState::Completed, JobState::Running]);

    let named = if is_scope { states.without(JobState::Running) } else { states };
    let dead = named.intersection(AFTER_START);
    (!dead.is_empty()).then(|| {
        format!(
            "no job claims its key while {}, \
             since `until = \"start\"` gives the claim up for good",
            listed_states(dead, "or"),
        )
    })
}

fn gap(states: StateSet) -> Option<String> {
    let gap = states.gap();
    if states.is_disjoint(WAITING) {
        let note = "these states leave out every waiting one, \
                    so duplicates inserted before the job starts are all stored";
        return Some(note.to_owned());
    }
    (!gap.is_empty()).then(|| {
        format!(
            "these states have a gap: the claim is given up while the job is {}, \
             and taken back afterwards only if no other job took the key",
            listed_states(gap, "or"),
        )
    })
}

/// A window that is longer than completed jobs are kept. A `period` or a `ttl` keeps its job, and so its claim.
fn short_retention(states: StateSet, window: Option<std::time::Duration>) -> Option<String> {
    let outlives = window.is_some_and(|window| window > DEFAULT_RETENTION_OF_COMPLETED);
    let note = "this window outlives the claims of completed jobs, which by default are deleted after a day: \
                keep them longer with the retention of the runners or the queue";
    (outlives && states.contains(JobState::Completed)).then(|| note.to_owned())
}

fn listed_states(states: StateSet, last: &str) -> String {
    listed(states.iter().map(JobState::as_str), last)
}

/// Checks that the options of a group fit each other and the type.
fn check_group(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    let options = &attributes.options;
    for option in ["limit", "in_order"].into_iter().filter_map(|name| options.find(name)) {
        if !options.has(&["group"]) {
            let message = format!("`{}` needs a group", option.name);
            problems.add(option.span, message, "add `group(field)`, or give it to the insert");
        }
    }
    if let (Some(limit), Some(2..), true) = (options.find("limit"), options.number("limit"), options.has(&["in_order"]))
    {
        let message = format!("`in_order` has limit 1: {}", limit.shown());
        problems.add(limit.place(), message, "remove `limit` or `in_order`");
    }
    let Some(Group::Fields(idents)) = &attributes.group else { return };
    for ident in idents.iter().filter(|ident| fields.find(ident).is_none()) {
        let known = fields.named.iter().map(|named| named.ident.as_str());
        let hint = suggestion(&ident.to_string(), known);
        problems.add(ident.span(), format!("unknown field in `group`: `{ident}`"), hint);
    }
}

/// Checks that `one_at_a_time` has a policy, and no option that it sets by itself.
fn check_one_at_a_time(attributes: &JobAttributes, problems: &mut Problems) {
    let options = &attributes.options;
    let Some(span) = options.span_of("one_at_a_time") else { return };
    let Some(unique) = &attributes.unique else {
        let hint = "add `unique(...)`: it says which jobs are the same";
        return problems.add(span, "`one_at_a_time` needs `unique`", hint);
    };
    let of_group = ["group", "limit", "in_order"].into_iter().filter_map(|name| options.find(name));
    let of_unique =
        ["window", "scope", "states", "until", "on_conflict", "update", "debounce", "max_delay", "on_reentry"];
    for option in of_group.chain(of_unique.into_iter().filter_map(|name| unique.options.find(name))) {
        problems.add(
            option.span,
            format!("`one_at_a_time` takes no `{}`", option.name),
            "remove it: the claim lasts while the job is queued, and the group is that of the key",
        );
    }
}

/// Checks that `place` names a value that jobs of the type have.
fn check_place(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    let options = &attributes.options;
    let Some(Value::Text((given, span))) = options.find("place").map(|place| &place.value) else { return };
    let refused = match (given.as_str(), &attributes.unique) {
        ("id", _) => None,
        ("unique_key", None) => Some(("the jobs have no unique key", "add `unique(...)`")),
        ("unique_key", Some(unique)) => unique.options.has(&["window"]).then_some((
            "a window makes another key by the clock of each server",
            "name a field, such as `place = \"tenant\"`",
        )),
        ("group", _) => {
            (!options.has(&["group", "one_at_a_time"])).then_some(("the jobs have no group", "add `group(...)`"))
        }
        (selector, _) => match Part::new(selector, true).problem() {
            Some(problem) => Some((problem, "name a member of the args, or write `unique_key`, `group` or `id`")),
            None => return check_member(selector, *span, fields, &["unique_key", "group", "id"], problems),
        },
    };
    if let Some((problem, hint)) = refused {
        problems.add(*span, format!("{problem}: {given:?}"), hint);
    }
}

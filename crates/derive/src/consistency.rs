//! What the options say about the type and to each other.
//!
//! The rules of every policy are those of its reader in `uniqueue-policy`. A combination that works, but gives up a claim
//! unexpectedly, is a warning, which `gaps = "allowed"` turns off.

use proc_macro2::Span;
use uniqueue_policy::{DEFAULT_RETENTION_OF_COMPLETED, JobState, Part, StateSet, UniqueScope};

use crate::attributes::JobAttributes;
use crate::fields::{Fields, Marked, Named};
use crate::group::Group;
use crate::options::Set;
use crate::problems::{Problems, closest, listed};
use crate::unique::Unique;

/// The states of jobs that have yet to start.
const WAITING: StateSet = UniqueScope::Queued.states();

/// A warning about a valid option.
pub(crate) struct Warning {
    pub(crate) span: Span,
    pub(crate) note: String,
}

/// Reports options that contradict each other or can never work.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    if let Some(unique) = &attributes.unique {
        check_unique(unique, fields, problems);
    }
    check_group(attributes, fields, problems);
    check_place(attributes, fields, problems);
}

fn check_unique(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    check_args(unique, fields, problems);
    check_key(unique, fields, problems);
    check_append(unique, fields, problems);
    check_states(unique, problems);
    unique.check(fields, problems);
}

fn check_args(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    let (Some(args), Some(span)) = (unique.options.find("args"), unique.options.span_of("args")) else { return };
    if let Some(Marked { name, .. }) = fields.unique.first() {
        let these = match args {
            Set::Flag => "all args",
            Set::Texts(_) => "selected args",
            _ => "args",
        };
        problems.add(
            span,
            format!("{these} or marked fields, not both: field `{name}` is marked unique"),
            "keep the marks on the fields, or keep this",
        );
    }
    let (Set::Texts(names), Some(members)) = (args, &fields.members) else { return };
    for (name, span) in names {
        let part = Part::new(name, true);
        let member = part.member();
        if part.problem().is_none() && !members.iter().any(|known| known == member) {
            let hint = match members.as_slice() {
                [] => "they have none".to_owned(),
                members => format!("they have {}", listed(members.iter().map(String::as_str), "and")),
            };
            problems.add(*span, format!("the args have no member: {member:?}"), hint);
        }
    }
}

/// Reports a key that contradicts itself or says nothing. An invalid option might have said it.
fn check_key(unique: &Unique, fields: &Fields, problems: &mut Problems) {
    if let (Some(span), true) = (unique.options.span_of("exclude_kind"), unique.options.has(&["kind"])) {
        return problems.add(span, "`kind` and `exclude_kind` contradict each other", "remove one of the two");
    }
    let is_selective = !fields.unique.is_empty()
        || unique.options.has(&["args", "queue", "meta"])
        || matches!(unique.options.text("like"), Some("faktory" | "zizq"))
        || !unique.is_valid;
    if is_selective {
        return;
    }
    // With a window the key is not empty, and means nothing.
    if let (Some(span), true) = (unique.options.span_of("exclude_kind"), unique.options.has(&["window"])) {
        problems.add(
            span,
            "`exclude_kind` with nothing else in the key: \
             jobs of all kinds would share one key",
            "add `args`, `queue` or `meta(\"...\")`, or mark fields `#[job(unique)]`",
        );
    } else if !unique.options.has(&["kind", "exclude_kind"]) {
        problems.add(
            unique.span,
            "`unique` does not say what makes two jobs the same",
            "add `args` or `args(\"...\")`, `queue`, `meta(\"...\")`, \
             or `kind` for one job of this kind at a time; or mark fields `#[job(unique)]`",
        );
    }
    let says_more = unique.options.has(&["period", "ttl", "window", "scope", "states", "until"]);
    if let (Some("river"), Some(span), false) = (unique.options.text("like"), unique.options.span_of("like"), says_more)
    {
        problems.add(
            span,
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
    let selected: Vec<_> = match unique.options.find("args") {
        Some(Set::Texts(names)) => {
            names.iter().map(|(name, span)| (Part::new(name, true).member().to_owned(), *span)).collect()
        }
        _ => fields.unique.iter().map(|marked| (marked.name.clone(), marked.span)).collect(),
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
    if let (Some("success"), Some(span), true) =
        (unique.options.text("until"), unique.options.span_of("until"), unique.options.has(&["scope", "states"]))
    {
        problems.add(
            span,
            "`until = \"success\"` cannot be combined with `scope` or `states`",
            "it stands for all states but `completed`: keep one of the two",
        );
    }
    let is_running_alone = |set: &Set| matches!(set, Set::Texts(names) if names.iter().all(|(name, _)| name == "running" || name == "active"));
    let replaces = matches!(unique.options.text("on_conflict"), Some("replace" | "replace_except_schedule"));
    if let (Some(span), true) =
        (unique.options.span_of("states"), replaces && unique.options.find("states").is_some_and(is_running_alone))
    {
        problems.add(
            span,
            "no job could ever be replaced: \
             a running job is not, and no other state claims the key",
            "add the states of waiting jobs, or write `on_conflict = \"reject\"`",
        );
    }
}

/// Returns the warning about a policy, unless `gaps = "allowed"`.
pub(crate) fn warning(unique: &Unique, fields: &Fields) -> Option<Warning> {
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
    Some(Warning { span, note: format!("{note}; write `gaps = \"allowed\"` if that is meant") })
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
    let (limit, in_order) = (options.number("limit"), options.span_of("in_order"));
    if attributes.group_span.is_none() {
        for (name, span) in [("limit", limit.map(|(_, span)| span)), ("in_order", in_order)] {
            if let Some(span) = span {
                problems.add(span, format!("`{name}` needs a group"), "add `group(field)`, or give it to the insert");
            }
        }
    }
    if let (Some((limit @ 2.., span)), Some(_)) = (limit, in_order) {
        problems.add(span, format!("`in_order` has limit 1: {limit}"), "remove `limit` or `in_order`");
    }
    check_one_at_a_time(attributes, problems);
    let Some(Group::Fields(idents)) = &attributes.group else { return };
    for ident in idents {
        if fields.find(ident).is_none() {
            let known: Vec<_> = fields.named.iter().map(|Named { ident, .. }| ident.as_str()).collect();
            let hint = match closest(&ident.to_string(), known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "name a field that is a member of the args".to_owned(),
            };
            problems.add(ident.span(), format!("unknown field in `group`: `{ident}`"), hint);
        }
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
    let of_group = [
        ("group", attributes.group_span),
        ("limit", options.number("limit").map(|(_, span)| span)),
        ("in_order", options.span_of("in_order")),
    ];
    let of_unique =
        ["window", "scope", "states", "until", "on_conflict", "update", "debounce", "max_delay", "on_reentry"];
    let of_unique = of_unique.into_iter().map(|name| (name, unique.options.span_of(name)));
    let set = of_group.into_iter().chain(of_unique);
    for (name, span) in set.filter_map(|(name, span)| Some((name, span?))) {
        problems.add(
            span,
            format!("`one_at_a_time` takes no `{name}`"),
            "remove it: the claim lasts while the job is queued, and the group is that of the key",
        );
    }
}

/// Checks that `place` names a value that jobs of the type have.
fn check_place(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    let Some(Set::Text((given, span))) = attributes.options.find("place") else { return };
    let mut refuse = |problem: &str, hint: &str| problems.add(*span, format!("{problem}: {given:?}"), hint);
    match given.as_str() {
        "id" => {}
        "unique_key" => match &attributes.unique {
            None => refuse("the jobs have no unique key", "add `unique(...)`"),
            Some(unique) if unique.options.has(&["window"]) => refuse(
                "a window makes another key by the clock of each server",
                "name a field, such as `place = \"tenant\"`",
            ),
            Some(_) => {}
        },
        "group" if attributes.group_span.is_some() || attributes.options.has(&["one_at_a_time"]) => {}
        "group" => refuse("the jobs have no group", "add `group(...)`"),
        selector => {
            let Some(members) = &fields.members else { return };
            let part = Part::new(selector, true);
            let member = part.member();
            if !members.iter().any(|known| known == member) {
                let hint = match closest(member, members.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "name a member of the args, or write `unique_key`, `group` or `id`".to_owned(),
                };
                refuse("the args have no such member", &hint);
            }
        }
    }
}

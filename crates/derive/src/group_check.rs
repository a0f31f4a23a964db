//! Whether the options of a group fit each other, the policy and the type.

use proc_macro2::Span;

use crate::attributes::JobAttributes;
use crate::fields::{Fields, Named};
use crate::group::Group;
use crate::problems::{Problems, closest};

/// Checks that the options of a group fit each other and the type.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    if !attributes.has_group {
        for (name, span) in
            [("limit", attributes.limit.as_ref().map(|(_, span)| *span)), ("in_order", attributes.in_order)]
        {
            if let Some(span) = span {
                problems.add(span, format!("`{name}` needs a group"), "add `group(field)`, or give it to the insert");
            }
        }
    }
    if let (Some((limit, span)), Some(_)) = (attributes.limit, attributes.in_order)
        && limit > 1
    {
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
    let Some(span) = attributes.one_at_a_time else { return };
    let Some(unique) = &attributes.unique else {
        let hint = "add `unique(...)`: it says which jobs are the same";
        return problems.add(span, "`one_at_a_time` needs `unique`", hint);
    };
    let window = unique.limits.iter().find(|limit| limit.name == "window").map(|limit| ("window", limit.span));
    let of = |name, setting: Option<Span>| setting.map(|span| (name, span));
    let set = [
        window,
        of("group", attributes.has_group.then_some(span)),
        of("limit", attributes.limit.as_ref().map(|(_, span)| *span)),
        of("in_order", attributes.in_order),
        of("scope", unique.scope.as_ref().map(|setting| setting.span)),
        of("states", unique.states.as_ref().map(|setting| setting.span)),
        of("until", unique.until.as_ref().map(|setting| setting.span)),
        of("on_conflict", unique.on_conflict.as_ref().map(|setting| setting.span)),
        of("update", unique.update.as_ref().map(|setting| setting.span)),
        of("debounce", unique.debounce.as_ref().map(|setting| setting.span)),
        of("max_delay", unique.max_delay.as_ref().map(|setting| setting.span)),
        of("on_reentry", unique.on_reentry.as_ref().map(|setting| setting.span)),
    ];
    for (name, span) in set.into_iter().flatten() {
        problems.add(
            span,
            format!("`one_at_a_time` takes no `{name}`"),
            "remove it: the claim lasts while the job is queued, and the group is that of the key",
        );
    }
}

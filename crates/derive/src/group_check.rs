//! Whether the options of a group fit each other, the policy and the type.

use crate::attributes::JobAttributes;
use crate::fields::{Fields, Named};
use crate::group::Group;
use crate::problems::{Problems, closest};

/// Checks that the options of a group fit each other and the type.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
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

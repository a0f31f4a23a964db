//! Whether the value that decides the place of a job exists.

use crate::attributes::JobAttributes;
use crate::fields::Fields;
use crate::problems::{Problems, closest};

/// Checks that `place` names a value that jobs of the type have.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
    let Some(place) = &attributes.place else { return };
    let given = place.value();
    let mut refuse = |problem: &str, hint: &str| problems.add(place.span(), format!("{problem}: {given:?}"), hint);
    match given.as_str() {
        "id" => {}
        "unique_key" => match &attributes.unique {
            None => refuse("the jobs have no unique key", "add `unique(...)`"),
            Some(unique) if unique.limits.iter().any(|limit| limit.name == "window") => refuse(
                "a window makes another key by the clock of each server",
                "name a field, such as `place = \"tenant\"`",
            ),
            Some(_) => {}
        },
        "group" if attributes.has_group || attributes.one_at_a_time.is_some() => {}
        "group" => refuse("the jobs have no group", "add `group(...)`"),
        selector => {
            let Some(members) = &fields.members else { return };
            let member = match selector.strip_prefix('/') {
                None => selector.to_owned(),
                Some(path) => path.split('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~"),
            };
            if !members.contains(&member) {
                let hint = match closest(&member, members.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "name a member of the args, or write `unique_key`, `group` or `id`".to_owned(),
                };
                refuse("the args have no such member", &hint);
            }
        }
    }
}

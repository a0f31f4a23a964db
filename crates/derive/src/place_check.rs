//! Whether the value that decides the place of a job exists.

use uniqueue_policy::Part;

use crate::attributes::JobAttributes;
use crate::fields::Fields;
use crate::options::Set;
use crate::problems::{Problems, closest};

/// Checks that `place` names a value that jobs of the type have.
pub(crate) fn check(attributes: &JobAttributes, fields: &Fields, problems: &mut Problems) {
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

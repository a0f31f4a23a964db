//! Which groups a page lists.

use crate::fields::{Fields, url};
use crate::html::argument;
use uniqueue_admin::GroupInfo;

/// Which groups a page lists, as the URL holds it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct GroupQuery {
    pub(super) queue: Option<String>,
    /// In the order of names, which has pages. Otherwise those that are held up come first.
    pub(super) is_by_name: bool,
    /// Goes on after this group: its queue and its key.
    pub(super) after: Option<(String, String)>,
    /// The place of that group, in a list of several places.
    pub(super) place: Option<String>,
}

impl GroupQuery {
    pub(super) fn read(fields: &Fields) -> Self {
        let word = |name| fields.get(name).map(ToOwned::to_owned);
        let after = word("after_queue").zip(word("after"));
        let is_by_name = fields.get("order") == Some("name") || after.is_some();
        Self { queue: word("queue"), is_by_name, place: word("place").filter(|_| after.is_some()), after }
    }

    fn url(&self) -> String {
        let mut pairs: Vec<(&str, &str)> = self.queue.iter().map(|queue| ("queue", queue.as_str())).collect();
        if self.is_by_name {
            pairs.push(("order", "name"));
        }
        if let Some((queue, group)) = &self.after {
            pairs.extend([("after_queue", queue.as_str()), ("after", group)]);
        }
        pairs.extend(self.place.iter().map(|place| ("place", place.as_str())));
        url("/groups", &pairs)
    }

    /// The first page in one of the orders.
    pub(super) fn ordered(&self, is_by_name: bool) -> String {
        Self { is_by_name, after: None, place: None, ..self.clone() }.url()
    }

    /// The page after a group.
    pub(super) fn after(&self, last: &GroupInfo, place: Option<&str>) -> String {
        let after = Some((last.queue.to_string(), last.group.clone()));
        Self { after, place: place.map(ToOwned::to_owned), is_by_name: true, ..self.clone() }.url()
    }

    /// The command that lists the same groups.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["uniqueue queue groups".to_owned()];
        if self.is_by_name {
            words.push("--by-name --limit 100000".to_owned());
        }
        words.extend(self.queue.as_deref().map(argument));
        words.join(" ")
    }
}

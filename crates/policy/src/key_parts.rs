//! The parts of a job that make its key.

use std::sync::Arc;

use crate::conflict::OnConflict;
use crate::terms::Terms;
use crate::update::UpdateArgs;
use crate::word::Problem;

/// The most segments of a JSON Pointer: no value nests deeper than `serde_json` reads back.
const MOST_SEGMENTS: usize = 127;

/// One chosen part of args or meta: a top-level member by its literal name, or a deeper one by JSON Pointer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// The name or pointer as given.
    pub given: Arc<str>,
    /// Whether a job must have the part.
    pub is_required: bool,
    path: Result<Arc<[String]>, &'static str>,
}

impl Part {
    /// A part by its name or pointer. A job that lacks a required part is an error.
    #[must_use]
    pub fn new(given: &str, is_required: bool) -> Self {
        let path = given.strip_prefix('/').map_or_else(|| Ok([given.to_owned()].into()), segments);
        Self { given: given.into(), path, is_required }
    }

    /// The whole value.
    #[must_use]
    pub fn all() -> Self {
        Self { given: "".into(), path: Ok([].into()), is_required: true }
    }

    /// Whether these parts are [all](Self::all) of the value.
    #[must_use]
    pub fn are_all(parts: &[Self]) -> bool {
        matches!(parts, [part] if part.path.as_ref().is_ok_and(|path| path.is_empty()))
    }

    /// The names and indexes on the way to the part. Empty for a malformed pointer.
    #[must_use]
    pub fn path(&self) -> &[String] {
        self.path.as_deref().unwrap_or_default()
    }

    /// The top-level member that it is, or is in. Empty for a malformed pointer.
    #[must_use]
    pub fn member(&self) -> &str {
        self.path().first().map_or("", String::as_str)
    }

    /// The error in the pointer's syntax, if it has one.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        self.path.as_ref().err().copied()
    }
}

/// The segments of a pointer, of which the first slash is left out.
fn segments(pointer: &str) -> Result<Arc<[String]>, &'static str> {
    if pointer.split('/').count() > MOST_SEGMENTS {
        return Err("must not be deeper than 127 levels");
    }
    pointer.split('/').map(unescaped).collect()
}

/// A segment with `~1` read as a slash and `~0` as a tilde (RFC 6901).
fn unescaped(segment: &str) -> Result<String, &'static str> {
    if segment.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
        return Err("in a JSON Pointer ~ must be written ~0 and / within a name ~1");
    }
    Ok(segment.replace("~1", "/").replace("~0", "~"))
}

/// The parts of a job that make its key. A clone shares the lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyParts {
    /// Whether the kind is in the key.
    pub has_kind: bool,
    /// Whether the queue is in the key.
    pub has_queue: bool,
    /// The chosen parts of the args, or [all](Part::all) of them. `None`: the args are not in the key.
    pub args: Option<Arc<[Part]>>,
    /// The chosen parts of meta. `None`: meta is not in the key.
    pub meta: Option<Arc<[Part]>>,
}

impl KeyParts {
    /// The kind alone.
    pub const KIND: Self = Self { has_kind: true, has_queue: false, args: None, meta: None };

    /// The first rule that is broken.
    #[must_use]
    pub fn problem(&self, terms: &Terms) -> Option<Problem> {
        let lists = [("args_keys", &self.args), ("meta_keys", &self.meta)];
        for (member, parts) in lists.into_iter().filter_map(|(member, parts)| Some((member, parts.as_ref()?))) {
            if parts.is_empty() {
                return Some(Problem::new(member, "must name at least one member: []", ""));
            }
            let broken = parts.iter().find_map(|part| Some((part, part.problem()?)));
            if let Some((part, problem)) = broken {
                let is_optional = member == "args_keys" && !part.is_required;
                let member = if is_optional { "optional_args_keys" } else { member };
                return Some(Problem::of_item(member, problem, &part.given));
            }
        }
        let appends = terms.on_conflict == OnConflict::Update && terms.update.args == UpdateArgs::Append;
        if appends && self.args.as_deref().is_some_and(Part::are_all) {
            let reason = "append would change the args, which are all in the key: \"append\"";
            return Some(Problem::new("update", reason, ""));
        }
        let is_empty = *self == Self { has_kind: false, ..Self::KIND } && terms.window.is_none();
        is_empty.then(|| Problem::new("exclude_type", "leaves nothing to make a key from: true", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UniqueScope;

    #[test]
    fn malformed_pointers_are_refused() {
        for bad in ["/a~2", "/a~", "/~01~", &"/a".repeat(128)] {
            assert!(Part::new(bad, true).problem().is_some(), "{bad}");
        }
        let terms = Terms::new(UniqueScope::Active.states(), OnConflict::Ignore);
        let meta = Some([Part::new("/a~2", false)].into());
        let problem = KeyParts { meta, ..KeyParts::KIND }.problem(&terms).unwrap();
        assert_eq!(problem.member, "meta_keys");
        assert!(problem.to_string().ends_with(": \"/a~2\""), "{problem}");
    }

    #[test]
    fn names_are_literal_and_pointers_are_unescaped() {
        for (given, path) in
            [("a~2", &["a~2"][..]), ("/a~1b/c~0d/~01", &["a/b", "c~d", "~1"]), ("/", &[""]), ("", &[""])]
        {
            let part = Part::new(given, true);
            assert_eq!(
                (part.problem(), part.path(), &*part.given),
                (None, &*path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), given)
            );
        }
    }
}

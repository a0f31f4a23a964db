//! The values of the options of `unique(...)`.

use syn::LitStr;

use crate::entries::Entry;
use crate::problems::{Problems, closest, listed};
use crate::states::{State, States};

/// A fixed set of values. The variants have the names of the library's enum, because the generated code
/// contains them.
pub(crate) trait Word: Copy + 'static {
    /// Each value as written, with its variant.
    const WORDS: &'static [(&'static str, Self)];
}

macro_rules! words {
    ($($(#[$doc:meta])* $type:ident { $($variant:ident = $word:literal),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum $type { $($variant),* }

        impl Word for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),*];
        }
    )* };
}

words! {
    /// The library's `UniqueScope`.
    Scope {
        Queued = "queued",
        Active = "active",
        Completed = "completed",
        Exists = "exists",
    }

    /// The library's `Until`.
    Until {
        Success = "success",
        Start = "start",
    }

    /// The library's `OnConflict`.
    OnConflict {
        Ignore = "ignore",
        Reject = "reject",
        Replace = "replace",
        ReplaceExceptSchedule = "replace_except_schedule",
        Preempt = "preempt",
        Update = "update",
        RunAgain = "run_again",
    }

    /// The library's `UpdateArgs`.
    Update {
        Latest = "latest",
        Merge = "merge",
        Append = "append",
    }

    /// The library's `OnReentry`.
    OnReentry {
        GoOn = "go_on",
        Discard = "discard",
    }

    /// Another queue whose defaults apply.
    Like {
        River = "river",
        Ojs = "ojs",
        Faktory = "faktory",
        Zizq = "zizq",
    }

    /// Whether unusual sets of states cause no warning.
    Gaps {
        Allowed = "allowed",
    }
}

/// Reads `name = "word"`.
pub(crate) fn read<W: Word>(entry: &Entry, problems: &mut Problems) -> Option<W> {
    let text = entry.text(problems)?;
    let value = text.value();
    let found = W::WORDS.iter().find(|(word, _)| *word == value);
    if found.is_none() {
        let words = W::WORDS.iter().map(|(word, _)| *word);
        let meant = closest(&value, words.clone());
        report(&entry.name, &text, meant, words, problems);
    }
    found.map(|(_, meaning)| *meaning)
}

/// Reads `states("available", "running")`.
pub(crate) fn read_states(entry: &Entry, problems: &mut Problems) -> Option<States> {
    let texts = entry.texts(problems)?;
    let words = State::ALL.iter().map(|(word, _)| *word);
    let mut states = Vec::new();
    for text in &texts {
        let value = text.value();
        match State::ALL.iter().find(|(word, _)| *word == value) {
            Some((_, state)) => states.push(*state),
            None => {
                let meant = State::known_elsewhere_as(&value).or_else(|| closest(&value, words.clone()));
                report("state", text, meant, words.clone(), problems);
            }
        }
    }
    // A set without the invalid state could cause wrong errors about the set.
    (states.len() == texts.len()).then(|| States::of(&states))
}

fn report(
    what: &str,
    given: &LitStr,
    meant: Option<&str>,
    words: impl Iterator<Item = &'static str>,
    problems: &mut Problems,
) {
    let meant = meant.map(|meant| format!("did you mean \"{meant}\"? "));
    let hint = format!("{}valid: {}", meant.unwrap_or_default(), listed(words, "and"));
    problems.add(given.span(), format!("unknown {what}: {:?}", given.value()), hint);
}

//! How a key is made from a job, and the terms on which it is claimed.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use uniqueue_policy::{KeyParts, Length, OnConflict, Part, Preset, StateSet, Terms, UniqueScope};

use crate::json::Flaw;
use crate::unique::claim::Claim;
use crate::unique::raw_key::{UniqueKey, checked};

/// A rule that makes unique keys: which parts make a job "the same" as another, in which states
/// and for how long it claims its key, and how its insert reacts to a holder.
///
/// [`new`](Self::new) starts from the kind alone; each dimension added makes keys more specific,
/// so that fewer jobs are the same.
///
/// ```
/// use std::time::Duration;
/// use uniqueue::{OnConflict, UniquePolicy};
///
/// // One reconciliation per account and day, the latest wins.
/// let policy = UniquePolicy::new()
///     .by_arg_fields(["account_id"])
///     .window(Duration::from_secs(24 * 60 * 60))
///     .on_conflict(OnConflict::Replace);
/// policy.check()?;
/// # Ok::<(), uniqueue::Error>(())
/// ```
///
/// | constructor | states | a duplicate | key |
/// |---|---|---|---|
/// | [`new`](Self::new) | Active | is ignored | kind |
/// | [`zizq`](Self::zizq) | Queued | is ignored | kind, args |
/// | [`river`](Self::river) | Completed | is ignored | kind, once something is added |
/// | [`ojs`](Self::ojs) | Active | is rejected | kind |
/// | [`faktory`](Self::faktory) | all but completed | is rejected | kind, args, queue |
///
/// The default is [`new`](Self::new). In JSON a policy is OJS's document; see
/// [`from_ojs`](Self::from_ojs).
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a policy does nothing until a job carries it"]
pub struct UniquePolicy {
    /// A key of the caller's, which stands alone.
    pub(crate) key: Option<Result<String, Flaw>>,
    pub(crate) parts: KeyParts,
    pub(crate) terms: Terms,
    /// False for River's empty options, which mean that no uniqueness is enforced.
    pub(crate) is_enforced: bool,
}

impl UniquePolicy {
    /// Unique by kind while the job is not over (scope [`Active`](UniqueScope::Active)); a
    /// duplicate is ignored.
    pub const fn new() -> Self {
        Self::on(Terms::new(UniqueScope::Active.states(), OnConflict::Ignore))
    }

    /// With Zizq's defaults: by kind and all args, while the job waits (scope
    /// [`Queued`](UniqueScope::Queued)); a duplicate is ignored.
    ///
    /// This makes uniqueue's keys. For the very keys that Zizq's clients make, see
    /// [`UniqueKey::zizq_rust`] and [`UniqueKey::zizq_node`].
    pub fn zizq() -> Self {
        Self::on(Preset::Zizq.terms()).by_args()
    }

    /// With the defaults of River's `UniqueOpts`: until a completed job is pruned (scope
    /// [`Completed`](UniqueScope::Completed)); a duplicate is ignored.
    ///
    /// As in River, *empty options mean that no uniqueness is enforced*: until a dimension
    /// (args, meta, queue, window, excluded kind), a set of states, an `until` or a time limit is
    /// added, [`resolve`](Self::resolve) gives no claim. `ByPeriod` is [`window`](Self::window), and
    /// `ByState` is [`states`](Self::states), which may leave any state out; a job that meets a
    /// rival on its way back goes on without the claim, unless `on_reentry` asks for River's
    /// discard.
    pub const fn river() -> Self {
        let mut policy = Self::on(Preset::River.terms());
        policy.is_enforced = false;
        policy
    }

    /// With the defaults of OJS's `UniquePolicy`: by type, while the job is not over (scope
    /// [`Active`](UniqueScope::Active)); a duplicate is rejected.
    pub const fn ojs() -> Self {
        Self::on(Preset::Ojs.terms())
    }

    /// With Faktory's defaults: by kind, args and queue, until success or until `unique_for` has
    /// passed since the job was due; a duplicate is rejected.
    ///
    /// The claim outlives a job that is discarded or cancelled. `until(Until::Start)` is
    /// Faktory's `unique_until: start`.
    pub fn faktory(unique_for: impl Into<Length>) -> Self {
        Self::on(Preset::Faktory.terms()).by_args().by_queue().ttl(unique_for)
    }

    /// Adds all args to the key. Parts chosen before are no longer singled out.
    pub fn by_args(mut self) -> Self {
        self.parts.args = Some([Part::all()].into());
        self.added()
    }

    /// Adds these parts of the args to the key: top-level members by their literal name, deeper
    /// ones by JSON Pointer (`/customer/id`). A part that the job's args do not have is an error;
    /// a part that is null is kept.
    ///
    /// May be called again, and joined with [`optional_arg_fields`](Self::optional_arg_fields):
    /// the parts add up. After [`by_args`](Self::by_args) it narrows the args to these parts.
    /// Of positional args, the first item is read if it is an object.
    pub fn by_arg_fields<N: Into<Cow<'static, str>>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.add_arg_parts(names.into_iter().map(|name| Part::new(&name.into(), true)))
    }

    /// Adds these parts of the args to the key if they exist: a part that the job's args lack is
    /// left out, one that is null is kept. The derive macro does so for fields that may be
    /// skipped.
    pub fn optional_arg_fields<N: Into<Cow<'static, str>>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.add_arg_parts(names.into_iter().map(|name| Part::new(&name.into(), false)))
    }

    /// Adds these members of the metadata to the key, by literal name or JSON Pointer. One that
    /// the job's meta does not have is left out; one that is null is kept.
    pub fn by_meta<N: Into<Cow<'static, str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let parts = names.into_iter().map(|name| Part::new(&name.into(), false));
        self.parts.meta = Some(added_to(self.parts.meta, parts));
        self.added()
    }

    /// Adds the queue to the key. Without it, jobs in different queues can be the same.
    pub fn by_queue(mut self) -> Self {
        self.parts.has_queue = true;
        self.added()
    }

    /// Leaves the kind out of the key, so that jobs of different kinds can be the same. Something
    /// else must be in it.
    pub fn exclude_kind(mut self) -> Self {
        self.parts.has_kind = false;
        self.added()
    }

    /// Adds the window of time to the key (River's `ByPeriod`): windows of this length, counted
    /// from Monday 0001-01-01 00:00 UTC. The job's `scheduled_at` decides the window when it is
    /// set, otherwise the database's now. Whole seconds, at most 100 years; not together with
    /// `period` or `ttl`.
    pub const fn window(mut self, length: Duration) -> Self {
        self.terms.window = Some(length);
        self.is_enforced = true;
        self
    }

    /// Takes this text as the key, verbatim: 1 to 512 bytes, no NUL. It stands alone: a policy
    /// with a key and anything else to make one from is an error.
    ///
    /// The scope is the policy's: [`new`](Self::new) claims the key *while the job is active*, until it is over. The same
    /// text as a [`UniqueKey::raw`] is claimed only *while the job is queued*. Producers that share a key should set the
    /// scope.
    pub fn key(mut self, text: impl Into<String>) -> Self {
        self.key = Some(checked(text.into()));
        self.added()
    }

    terms_setters!();

    /// How long after its insert the job is due, where the insert gives no time.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.terms.changes()?.delay
    }

    /// Whether the key depends on the time, so that the subject's `window_at` must be set.
    #[must_use]
    pub const fn needs_clock(&self) -> bool {
        self.terms.window.is_some() && self.is_enforced
    }

    /// The states in which a job claims its key.
    #[must_use]
    pub const fn claim_states(&self) -> StateSet {
        self.terms.states
    }

    /// Whether the key depends on the args.
    pub(super) const fn needs_args(&self) -> bool {
        self.parts.args.is_some()
    }

    /// Whether the key depends on the metadata.
    pub(super) const fn needs_meta(&self) -> bool {
        self.parts.meta.is_some()
    }

    /// Whether the policy enforces anything: false for [`river`](Self::river) with nothing added.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    fn add_arg_parts(mut self, parts: impl Iterator<Item = Part>) -> Self {
        let chosen = self.parts.args.filter(|chosen| !Part::are_all(chosen));
        self.parts.args = Some(added_to(chosen, parts));
        self.added()
    }

    /// Something was added: River's options are no longer empty.
    fn added(mut self) -> Self {
        self.mark_enforced();
        self
    }

    fn mark_enforced(&mut self) {
        self.is_enforced = true;
    }

    /// A key of the kind alone, on these terms.
    const fn on(terms: Terms) -> Self {
        Self { key: None, parts: KeyParts::KIND, terms, is_enforced: true }
    }
}

/// The parts that were chosen before, and these.
fn added_to(chosen: Option<Arc<[Part]>>, parts: impl Iterator<Item = Part>) -> Arc<[Part]> {
    chosen.iter().flat_map(|chosen| chosen.iter().cloned()).chain(parts).collect()
}

impl Default for UniquePolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy that makes a claim of every job.
impl From<Claim> for UniquePolicy {
    fn from(Claim { key, terms }: Claim) -> Self {
        // The key has the window in it.
        Self { terms: Terms { window: None, ..terms }, ..Self::new().key(key) }
    }
}

/// A policy with a given key, which keeps the key's terms.
impl From<UniqueKey> for UniquePolicy {
    fn from(key: UniqueKey) -> Self {
        let (text, terms) = key.into_parts();
        Self { key: Some(text), terms, ..Self::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unique::{Subject, Until};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn claim(policy: &UniquePolicy) -> Option<Claim> {
        let subject = Subject {
            kind: "k",
            queue: "q",
            args: &serde_json::json!({"a": 1}),
            meta: &serde_json::json!({}),
            window_at: Some(time::OffsetDateTime::UNIX_EPOCH),
        };
        policy.resolve(&subject).unwrap()
    }

    #[test]
    fn a_claim_with_a_window_makes_a_policy_that_makes_it_again() {
        let made = claim(&UniquePolicy::river().window(HOUR)).unwrap();
        let policy = UniquePolicy::from(made.clone());
        policy.check().unwrap();
        assert_eq!(claim(&policy).unwrap().key, made.key);
    }

    #[test]
    fn rivers_empty_options_enforce_nothing() {
        assert_eq!(claim(&UniquePolicy::river()), None);
        assert!(!UniquePolicy::river().on_conflict(OnConflict::Reject).is_enforced());
        for policy in [
            UniquePolicy::river().by_args(),
            UniquePolicy::river().by_arg_fields(["a"]),
            UniquePolicy::river().by_queue(),
            UniquePolicy::river().by_queue().exclude_kind(),
            UniquePolicy::river().window(HOUR),
            UniquePolicy::river().states(UniqueScope::Active),
            UniquePolicy::river().period(HOUR),
            UniquePolicy::river().ttl(HOUR),
            UniquePolicy::river().until(Until::Start),
        ] {
            assert!(claim(&policy).is_some());
        }
    }

    #[test]
    fn chosen_parts_add_up_and_narrow() {
        assert_eq!(UniquePolicy::default(), UniquePolicy::new());
        let both = UniquePolicy::new().by_arg_fields(["a", "b"]);
        assert_eq!(UniquePolicy::new().by_arg_fields(["a"]).by_arg_fields(["b"]), both);
        assert_eq!(UniquePolicy::zizq().by_arg_fields(["a"]).parts.args, Some([Part::new("a", true)].into()));
        assert_eq!(UniquePolicy::new().by_arg_fields(["a"]).by_args().parts.args, Some([Part::all()].into()));
    }

    #[test]
    fn a_unique_key_is_a_policy_that_keeps_its_terms() {
        let key = UniqueKey::raw("k").scope(UniqueScope::Exists).until_start();
        let policy = UniquePolicy::from(key.clone());
        assert_eq!(claim(&policy), Some(key.claim().unwrap()));
        assert!(UniquePolicy::from(key).by_queue().check().is_err());
    }

    #[test]
    fn a_policy_says_what_it_needs() {
        let all = UniquePolicy::new().by_args().by_meta(["a"]).window(HOUR);
        assert!(all.needs_args() && all.needs_meta() && all.needs_clock());
        let none = UniquePolicy::new().by_queue();
        assert!(!none.needs_args() && !none.needs_meta() && !none.needs_clock());
    }
}

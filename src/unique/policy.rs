//! How a key is made from a job, and the terms on which it is claimed.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::Result;
use crate::period;
use crate::unique::canonical::Sink;
use crate::unique::claim::{Claim, Terms};
use crate::unique::conflict::OnConflict;
use crate::unique::fingerprint::{Fingerprint, Subject};
use crate::unique::flaw::{Flaw, invalid, require};
use crate::unique::key::{UniqueKey, checked, sha256_hex};
use crate::unique::select::{Part, Selected, named_args};
use crate::unique::states::{StateSet, UniqueScope};

/// A rule that makes unique keys: what of a job makes it "the same" as another, in which states
/// and for how long it claims its key, and what a duplicate does.
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
    pub(crate) has_kind: bool,
    pub(crate) args: Args,
    /// The chosen parts of meta; `None` where meta plays no part.
    pub(crate) meta: Option<Vec<Part>>,
    pub(crate) has_queue: bool,
    pub(crate) window: Option<Duration>,
    pub(crate) terms: Terms,
    /// False for River's empty options, which mean that no uniqueness is enforced.
    pub(crate) is_enforced: bool,
}

/// Which args are part of the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Args {
    None,
    All,
    Parts(Vec<Part>),
}

impl UniquePolicy {
    /// Unique by kind while the job is not over (scope [`Active`](UniqueScope::Active)); a
    /// duplicate is ignored.
    pub const fn new() -> Self {
        Self::of_kind(UniqueScope::Active, OnConflict::Ignore)
    }

    /// With Zizq's defaults: by kind and all args, while the job waits (scope
    /// [`Queued`](UniqueScope::Queued)); a duplicate is ignored.
    ///
    /// This makes uniqueue's keys. For the very keys that Zizq's clients make, see
    /// [`UniqueKey::zizq_rust`] and [`UniqueKey::zizq_node`].
    pub fn zizq() -> Self {
        Self::of_kind(UniqueScope::Queued, OnConflict::Ignore).by_args()
    }

    /// With the defaults of River's `UniqueOpts`: until a completed job is pruned (scope
    /// [`Completed`](UniqueScope::Completed)); a duplicate is ignored.
    ///
    /// As in River, *empty options mean that no uniqueness is enforced*: until a dimension
    /// (args, meta, queue, window, excluded kind), a set of states or a time limit is added,
    /// [`resolve`](Self::resolve) gives no claim. `ByPeriod` is [`window`](Self::window), and
    /// `ByState` is [`states`](Self::states), which may leave any state out; a job that meets a
    /// rival on its way back goes on without the claim, unless `on_reentry` asks for River's
    /// discard.
    pub const fn river() -> Self {
        let mut policy = Self::of_kind(UniqueScope::Completed, OnConflict::Ignore);
        policy.is_enforced = false;
        policy
    }

    /// With the defaults of OJS's `UniquePolicy`: by type, while the job is not over (scope
    /// [`Active`](UniqueScope::Active)); a duplicate is rejected.
    pub const fn ojs() -> Self {
        Self::of_kind(UniqueScope::Active, OnConflict::Reject)
    }

    /// With Faktory's defaults: by kind, args and queue, until success or until `unique_for` has
    /// passed since the job was due; a duplicate is rejected.
    ///
    /// The claim outlives a job that is discarded or cancelled. `until(Until::Start)` is
    /// Faktory's `unique_until: start`.
    pub fn faktory(unique_for: Duration) -> Self {
        let mut policy = Self::of_kind(UniqueScope::Active, OnConflict::Reject).by_args().by_queue().ttl(unique_for);
        policy.terms.states = StateSet::ALL_BUT_COMPLETED;
        policy
    }

    /// Adds all args to the key. Parts chosen before are no longer singled out.
    pub fn by_args(mut self) -> Self {
        self.args = Args::All;
        self.added()
    }

    /// Adds these parts of the args to the key: top-level members by their literal name, deeper
    /// ones by JSON Pointer (`/customer/id`). A part that the job's args do not have is an error;
    /// a part that is null is kept.
    ///
    /// May be called again, and joined with [`optional_arg_fields`](Self::optional_arg_fields):
    /// the parts add up. After [`by_args`](Self::by_args) it narrows the args to these parts.
    /// Positional args are looked at in their first item when that is an object.
    pub fn by_arg_fields<N: Into<Cow<'static, str>>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.add_arg_parts(names.into_iter().map(Part::required))
    }

    /// Adds these parts of the args to the key as far as they are there: a part that the job's
    /// args do not have is left out, one that is null is kept. What the derive macro does for
    /// fields that may be skipped.
    pub fn optional_arg_fields<N: Into<Cow<'static, str>>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.add_arg_parts(names.into_iter().map(Part::optional))
    }

    /// Adds these members of the metadata to the key, by literal name or JSON Pointer. One that
    /// the job's meta does not have is left out; one that is null is kept.
    pub fn by_meta<N: Into<Cow<'static, str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let parts = names.into_iter().map(Part::optional);
        self.meta.get_or_insert_default().extend(parts);
        self.added()
    }

    /// Adds the queue to the key. Without it, jobs in different queues can be the same.
    pub fn by_queue(mut self) -> Self {
        self.has_queue = true;
        self.added()
    }

    /// Leaves the kind out of the key, so that jobs of different kinds can be the same. Something
    /// else must be in it.
    pub fn exclude_kind(mut self) -> Self {
        self.has_kind = false;
        self.added()
    }

    /// Adds the window of time to the key (River's `ByPeriod`): windows of this length, counted
    /// from Monday 0001-01-01 00:00 UTC. The job's `scheduled_at` decides the window when it is
    /// set, otherwise the database's now. Whole seconds, at most 100 years; not together with
    /// `period` or `ttl`.
    pub const fn window(mut self, length: Duration) -> Self {
        self.window = Some(length);
        self.is_enforced = true;
        self
    }

    /// Takes this text as the key, verbatim: 1 to 512 bytes, no NUL. It stands alone: a policy
    /// with a key and anything else to make one from is an error.
    pub fn key(mut self, text: impl Into<String>) -> Self {
        self.key = Some(checked(text.into()));
        self.added()
    }

    terms_setters!();

    /// Whether the key depends on the time, so that [`Subject::window_at`] must be set.
    #[must_use]
    pub const fn needs_clock(&self) -> bool {
        self.window.is_some() && self.is_enforced
    }

    /// Whether the key depends on the args.
    #[must_use]
    pub const fn needs_args(&self) -> bool {
        !matches!(self.args, Args::None)
    }

    /// Whether the key depends on the metadata.
    #[must_use]
    pub const fn needs_meta(&self) -> bool {
        self.meta.is_some()
    }

    /// Whether the policy enforces anything: false for [`river`](Self::river) with nothing added.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// Checks all that can be checked without a job.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) for a policy that can never work: no
    /// state, two time limits, nothing to make a key from, a malformed JSON Pointer, a key that
    /// does not stand alone. [`Error::InvalidPeriod`](crate::Error::InvalidPeriod) for a length
    /// of time outside its limits, [`Error::InvalidKey`](crate::Error::InvalidKey) for a key text
    /// outside its own.
    pub fn check(&self) -> Result<()> {
        self.terms.check()?;
        self.check_window()?;
        match &self.key {
            Some(text) => self.check_key(text),
            None => self.check_dimensions(),
        }
    }

    /// The claim that this job makes; `None` when the policy enforces nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); also
    /// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) when the job lacks a required
    /// part, and [`Error::InvalidJson`](crate::Error::InvalidJson) when what the key is made from
    /// has members that collide after NFC or nests too deeply.
    pub fn resolve(&self, subject: &Subject<'_>) -> Result<Option<Claim>> {
        if !self.is_enforced {
            return Ok(None);
        }
        self.check()?;
        let key = match &self.key {
            Some(text) => text.clone().map_err(Flaw::in_key)?,
            None => {
                let fingerprint = self.fingerprint(subject)?;
                let mut written = Ok(());
                let key = sha256_hex(|sink| {
                    written = write(&fingerprint, subject, sink);
                    Ok(())
                });
                written?;
                key.map_err(Flaw::in_key)?
            }
        };
        Ok(Some(self.terms.claim(key)))
    }

    /// The text whose SHA-256 is this job's key, for people to read; `None` when the policy
    /// enforces nothing or its key is given.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn canonical(&self, subject: &Subject<'_>) -> Result<Option<String>> {
        if !self.is_enforced {
            return Ok(None);
        }
        self.check()?;
        if self.key.is_some() {
            return Ok(None);
        }
        let mut text = String::new();
        write(&self.fingerprint(subject)?, subject, &mut text)?;
        Ok(Some(text))
    }

    fn fingerprint<'a>(&self, subject: &Subject<'a>) -> Result<Fingerprint<'a>> {
        let args = match &self.args {
            Args::None => None,
            Args::All => Some(Selected::All(subject.args)),
            Args::Parts(parts) => Some(Selected::of(named_args(subject.args), parts, "args_keys")?),
        };
        let meta = match &self.meta {
            None => None,
            Some(parts) => Some(Selected::of(subject.meta, parts, "meta_keys")?),
        };
        let period = match (self.window, subject.window_at) {
            (None, _) => None,
            (Some(length), Some(instant)) => Some(period::window(instant, length)?.fingerprint()),
            (Some(length), None) => {
                let length = period::write(length);
                return Err(invalid("window", format!("needs the job's time: {length}")));
            }
        };
        Ok(Fingerprint {
            args,
            meta,
            period,
            queue: self.has_queue.then_some(subject.queue),
            kind: self.has_kind.then_some(subject.kind),
        })
    }

    fn check_window(&self) -> Result<()> {
        let Some(length) = self.window else {
            return Ok(());
        };
        if let Some(limit) = self.terms.period.or(self.terms.ttl) {
            let both = format!("{} and {}", period::write(length), period::write(limit));
            return Err(invalid(
                "window",
                format!("stands beside period or ttl, and only one of them may limit time: {both}"),
            ));
        }
        period::check_window(length)
    }

    fn check_key(&self, text: &Result<String, Flaw>) -> Result<()> {
        let beside = [
            (!self.has_kind, "exclude_type"),
            (self.needs_args(), "args"),
            (self.needs_meta(), "meta"),
            (self.has_queue, "queue"),
            (self.window.is_some(), "window"),
        ];
        if let Some((_, other)) = beside.into_iter().find(|(is_there, _)| *is_there) {
            return Err(invalid("key", format!("stands alone, without {other}")));
        }
        text.as_ref().map(drop).map_err(|flaw| flaw.clone().in_key())
    }

    fn check_dimensions(&self) -> Result<()> {
        if let Args::Parts(parts) = &self.args {
            check_parts(parts, "args_keys")?;
        }
        if let Some(parts) = &self.meta {
            check_parts(parts, "meta_keys")?;
        }
        let is_empty =
            !self.has_kind && !self.has_queue && !self.needs_args() && !self.needs_meta() && self.window.is_none();
        require(!is_empty, "exclude_type", || "leaves nothing to make a key from: true")
    }

    fn add_arg_parts(mut self, parts: impl Iterator<Item = Part>) -> Self {
        match &mut self.args {
            Args::Parts(chosen) => chosen.extend(parts),
            Args::None | Args::All => self.args = Args::Parts(parts.collect()),
        }
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

    const fn of_kind(scope: UniqueScope, on_conflict: OnConflict) -> Self {
        Self {
            key: None,
            has_kind: true,
            args: Args::None,
            meta: None,
            has_queue: false,
            window: None,
            terms: Terms::new(scope.states(), on_conflict),
            is_enforced: true,
        }
    }
}

impl Default for UniquePolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// A policy with a given key, which keeps the key's terms.
impl From<UniqueKey> for UniquePolicy {
    fn from(key: UniqueKey) -> Self {
        let (text, terms) = key.into_parts();
        Self { key: Some(text), terms, ..Self::new() }
    }
}

fn check_parts(parts: &[Part], field: &'static str) -> Result<()> {
    require(!parts.is_empty(), field, || "must name at least one member: []")?;
    parts.iter().try_for_each(|part| part.check(field))
}

fn write(fingerprint: &Fingerprint<'_>, subject: &Subject<'_>, sink: &mut impl Sink) -> Result<()> {
    fingerprint.write(sink).map_err(|(what, flaw)| flaw.in_json(what, subject.kind))
}

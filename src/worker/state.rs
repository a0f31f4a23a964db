//! Shared values of workers, by type: given to the runner and reached through the job.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};

/// A runner's values, one of each type. They do not change once the runner runs, so reading takes no lock.
#[derive(Clone, Default)]
pub(crate) struct States {
    values: HashMap<TypeId, Value>,
    doubled: Option<&'static str>,
}

#[derive(Clone)]
struct Value {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl States {
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        let value = Value { name: type_name::<T>(), value: Arc::new(value) };
        if let Some(first) = self.values.insert(TypeId::of::<T>(), value) {
            self.doubled = Some(first.name);
        }
    }

    /// A type that has two values.
    pub(crate) const fn doubled(&self) -> Option<&'static str> {
        self.doubled
    }

    pub(crate) fn of<T: Send + Sync + 'static>(&self) -> Result<&T> {
        let found = self.values.get(&TypeId::of::<T>()).and_then(|found| found.value.downcast_ref());
        found.ok_or_else(|| Error::MissingState { wanted: type_name::<T>(), given: self.names() })
    }

    /// The first needed type that has no value.
    pub(crate) fn lacks(&self, needs: &Needs) -> Option<&'static str> {
        needs.states.iter().find(|(type_id, _)| !self.values.contains_key(type_id)).map(|(_, name)| *name)
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.values.values().map(|value| value.name).collect();
        names.sort_unstable();
        names
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The values that a worker or a middleware needs from its runner. A runner without them does not start.
///
/// ```
/// # struct Mailer;
/// let needs = uniqueue::Needs::new().state::<Mailer>();
/// # let _ = needs;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Needs {
    states: Vec<(TypeId, &'static str)>,
}

impl Needs {
    /// Nothing.
    pub const fn new() -> Self {
        Self { states: Vec::new() }
    }

    /// A value of this type, given with [`Runner::state`](crate::Runner::state).
    pub fn state<T: Send + Sync + 'static>(mut self) -> Self {
        self.states.push((TypeId::of::<T>(), type_name::<T>()));
        self
    }
}

//! Rights: what a request may do.

/// A kind of change that a visitor may make.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Right {
    /// Cancel, discard, retry, release and reschedule jobs, change their priority, and release claims.
    Change,
    /// Delete jobs.
    Delete,
    /// Insert jobs.
    Insert,
    /// Pause, hold, resume and limit queues and their groups, and set their rates, turns and retention.
    Queues,
    /// Pause, resume and run periodic jobs.
    Periodic,
    /// Switch the audit of duplicates on and off.
    Audit,
}

impl Right {
    /// Every right.
    pub const ALL: &[Right] =
        &[Right::Change, Right::Delete, Right::Insert, Right::Queues, Right::Periodic, Right::Audit];
}

/// The right that a route needs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Needs {
    /// Nothing: style sheets and scripts.
    Nothing,
    /// Reading.
    Read,
    /// A right, which includes reading.
    Right(Right),
}

/// The rights of a request, as the function of [`Web::access`](crate::Web::access) answers them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Access {
    can_read: bool,
    rights: Vec<Right>,
    user: Option<String>,
}

impl Access {
    /// Nothing: every page is refused.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every page, and no change.
    pub fn read() -> Self {
        Self { can_read: true, ..Self::default() }
    }

    /// Every page, and changes of these kinds.
    pub fn rights(rights: impl IntoIterator<Item = Right>) -> Self {
        Self { can_read: true, rights: rights.into_iter().collect(), user: None }
    }

    /// Every page and every change.
    pub fn all() -> Self {
        Self::rights(Right::ALL.iter().copied())
    }

    /// The user's name, for the log of changes.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The same access without any right to change.
    pub(crate) fn reading(mut self) -> Self {
        self.rights.clear();
        self
    }

    /// Whether it meets what a route needs.
    pub(crate) fn meets(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Read => self.can_read,
            Needs::Right(right) => self.has(right),
        }
    }

    /// Whether it includes a right.
    pub(crate) fn has(&self, right: Right) -> bool {
        self.can_read && self.rights.contains(&right)
    }

    /// The user's name, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_without_reading_is_none() {
        let access = Access { can_read: false, ..Access::all() };
        assert!(!access.meets(Needs::Right(Right::Delete)));
        assert!(!Access::read().meets(Needs::Right(Right::Change)));
        assert!(Access::all().reading().meets(Needs::Read));
        assert!(!Access::all().reading().meets(Needs::Right(Right::Change)));
    }
}

//! Groups: jobs of a queue that share a limit, or run in order.

use crate::error::{Error, Result};
use crate::unique::{MAX_KEY_BYTES, UniquePolicy};

/// The highest limit of a group.
const MAX_LIMIT: u16 = 32_767;

/// How the key of a job's group is made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupBy {
    Nothing,
    Key(String),
    Policy(Box<UniquePolicy>),
}

/// The group of a job, and how it limits the job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Group {
    pub(crate) key: String,
    /// The job starts only while fewer jobs of the group run. `None`: no limit of its own.
    pub(crate) limit: Option<u16>,
    pub(crate) in_order: bool,
}

impl Group {
    /// Checks the parts of a group. `None`: the job has no group.
    pub(crate) fn new(key: Option<String>, limit: Option<u16>, in_order: bool) -> Result<Option<Self>> {
        let refuse = |option, problem, given| Err(Error::InvalidOption { option, problem, given });
        match limit {
            Some(limit) if !(1..=MAX_LIMIT).contains(&limit) => {
                return refuse("group_limit", "must be 1 to 32767", limit.to_string());
            }
            Some(limit) if in_order && limit > 1 => {
                return refuse("group_limit", "must be 1 for a job that is in_order", limit.to_string());
            }
            _ => {}
        }
        let Some(key) = key else {
            return match limit {
                Some(limit) => refuse("group_limit", "needs a group", limit.to_string()),
                None if in_order => refuse("in_order", "needs a group", in_order.to_string()),
                None => Ok(None),
            };
        };
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            return refuse("group", "must be 1 to 512 bytes", key.len().to_string());
        }
        if key.contains('\0') {
            return refuse("group", "must not hold NUL", format!("{key:?}"));
        }
        Ok(Some(Self { key, limit, in_order }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(key: Option<&str>, limit: Option<u16>, in_order: bool) -> String {
        Group::new(key.map(ToOwned::to_owned), limit, in_order).unwrap_err().to_string()
    }

    #[test]
    fn a_group_that_can_never_work_is_refused() {
        assert_eq!(problem(Some("a"), Some(0), false), "invalid group_limit: must be 1 to 32767: 0");
        assert_eq!(problem(Some("a"), Some(32_768), false), "invalid group_limit: must be 1 to 32767: 32768");
        assert_eq!(problem(Some("a"), Some(2), true), "invalid group_limit: must be 1 for a job that is in_order: 2");
        assert_eq!(problem(None, Some(2), false), "invalid group_limit: needs a group: 2");
        assert_eq!(problem(None, None, true), "invalid in_order: needs a group: true");
        assert_eq!(problem(Some(""), None, false), "invalid group: must be 1 to 512 bytes: 0");
        assert_eq!(problem(Some(&"x".repeat(513)), None, false), "invalid group: must be 1 to 512 bytes: 513");
        assert_eq!(problem(Some("a\0"), None, false), "invalid group: must not hold NUL: \"a\\0\"");
    }
}

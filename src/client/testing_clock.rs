//! The time that the testing kit let pass, by which windows are ahead of the clock. Without the kit it is zero.
//!
//! Every stored time moves back when time passes, but a window is part of a key that is stored as a hash. So keys of
//! later inserts are made for a time that is further ahead instead. All clients of the process that use the database
//! and schema share it, since an application under test may have a client of its own.

use std::time::Duration;

use time::OffsetDateTime;

/// The time that passed in one schema of one database.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimePassed(Duration);

impl TimePassed {
    /// The time that decides the window of a job that is due then.
    pub(super) fn window_at(self, due: OffsetDateTime) -> OffsetDateTime {
        due.saturating_add(time::Duration::try_from(self.0).unwrap_or(time::Duration::MAX))
    }
}

#[cfg(not(feature = "testing"))]
impl super::Client {
    pub(super) const fn passed(&self) -> TimePassed {
        TimePassed(Duration::ZERO)
    }
}

#[cfg(feature = "testing")]
mod kept {
    use std::collections::HashMap;
    use std::path::PathBuf;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use super::{Duration, TimePassed};
    use crate::client::Client;

    #[derive(Eq, Hash, PartialEq)]
    struct Place {
        host: String,
        port: u16,
        socket: Option<PathBuf>,
        database: Option<String>,
        schema: String,
    }

    static PASSED: LazyLock<Mutex<HashMap<Place, Duration>>> = LazyLock::new(Mutex::default);

    impl Client {
        pub(in crate::client) fn passed(&self) -> TimePassed {
            let passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
            TimePassed(if passed.is_empty() {
                Duration::ZERO
            } else {
                passed.get(&self.database_key()).copied().unwrap_or_default()
            })
        }

        /// Lets time pass for the windows of later inserts.
        pub(crate) fn pass(&self, by: Duration) {
            let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
            let total = passed.entry(self.database_key()).or_default();
            *total = total.saturating_add(by);
        }

        fn database_key(&self) -> Place {
            let options = self.pool().connect_options();
            Place {
                host: options.get_host().to_owned(),
                port: options.get_port(),
                socket: options.get_socket().cloned(),
                database: options.get_database().map(str::to_owned),
                schema: self.schema().to_string(),
            }
        }
    }
}

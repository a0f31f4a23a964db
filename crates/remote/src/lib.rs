#![doc = include_str!("../README.md")]

mod fetch;
mod remote;
mod result;
mod shared_results;
mod wake_ups;

pub use self::fetch::{FetchJobs, FetchedJob};
pub use self::remote::{Maintained, Remote};
pub use self::result::{JobResult, JobRun, Reported};
pub use self::shared_results::SharedResults;
pub use self::wake_ups::{WakeUp, WakeUps};

//! Reads any bytes as the server does, for fuzzing: no byte that a client sends may make it panic.

use crate::command::{Command, MutationFilter};
use crate::payload::{Payload, sent_args};
use crate::reply::parse;
use crate::{ack, glob, hello};

/// Reads each line as a greeting and as a command, with all that the command holds.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = hello::parse(line);
        match Command::parse(line) {
            Ok(Command::Push(payload)) => read_job(*payload, line.len()),
            Ok(Command::PushMany(items)) => {
                let payloads = items.iter().filter_map(|item| parse::<Payload>("PUSHB", item.get()).ok());
                payloads.for_each(|payload| read_job(payload, line.len()));
            }
            Ok(Command::Mutate(mutation)) => {
                let MutationFilter { regexp, .. } = mutation.filter.unwrap_or_default();
                let text = String::from_utf8_lossy(bytes);
                let _ = glob::matches(&regexp.unwrap_or_default(), &text);
            }
            Ok(Command::Fail(failure)) => drop(ack::job_error(failure, line.len() as u64 % 50)),
            Ok(_) => {}
            Err(refusal) => assert!(!refusal.to_string().contains(['\r', '\n']), "it would begin another reply"),
        }
    }
}

fn read_job(payload: Payload, number: usize) {
    if let Ok(job) = payload.job(number.is_multiple_of(2))
        && let Some(args) = job.args_json()
    {
        let _ = sent_args(args);
    }
}

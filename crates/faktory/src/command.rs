//! Commands, read from a line. Nothing here does anything, and no line makes it panic.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::payload::Payload;
use crate::reply::{Refusal, read};

/// The most queues of one command.
const MAX_QUEUES: usize = 100;

/// The most jobs of one `PUSHB`.
pub(crate) const MAX_JOBS: usize = 10_000;

/// A command of a client.
#[derive(Debug)]
pub(crate) enum Command {
    Push(Box<Payload>),
    PushMany(Vec<Box<RawValue>>),
    /// At least one queue.
    Fetch(Vec<String>),
    Ack(String),
    Fail(Failure),
    Beat(Beat),
    Info,
    Flush,
    End,
    Queue(QueueVerb, Vec<String>),
    Mutate(Mutation),
}

/// Names a job.
#[derive(Deserialize)]
pub(crate) struct Named {
    pub(crate) jid: String,
}

/// Reports a failed job.
#[derive(Debug, Deserialize)]
pub(crate) struct Failure {
    pub(crate) jid: String,
    pub(crate) errtype: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) backtrace: Option<Vec<String>>,
}

/// A sign of life of a worker.
#[derive(Debug, Deserialize)]
pub(crate) struct Beat {
    pub(crate) wid: String,
    pub(crate) current_state: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum QueueVerb {
    Pause,
    Resume,
    Remove,
    Latency,
}

/// A change of jobs that wait or are dead.
#[derive(Debug, Deserialize)]
pub(crate) struct Mutation {
    pub(crate) cmd: MutationVerb,
    pub(crate) target: Target,
    pub(crate) filter: Option<MutationFilter>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MutationVerb {
    Clear,
    Discard,
    Kill,
    Requeue,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Target {
    Dead,
    Retries,
    Scheduled,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct MutationFilter {
    pub(crate) jids: Option<Vec<String>>,
    pub(crate) regexp: Option<String>,
    pub(crate) jobtype: Option<String>,
}

impl Command {
    /// Reads a line without its end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let line = std::str::from_utf8(line).map_err(|_| Refusal::new("Invalid command: not UTF-8"))?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        Ok(match verb {
            "PUSH" => Self::Push(read(verb, rest)?),
            "PUSHB" => match read::<Vec<_>>(verb, rest)? {
                jobs if jobs.len() > MAX_JOBS => {
                    return Err(Refusal::new(format!("Invalid PUSHB: at most {MAX_JOBS} jobs: {}", jobs.len())));
                }
                jobs => Self::PushMany(jobs),
            },
            "FETCH" => Self::Fetch(match names(rest)? {
                names if names.is_empty() => vec!["default".to_owned()],
                names => names,
            }),
            "ACK" => Self::Ack(read::<Named>(verb, rest)?.jid),
            "FAIL" => Self::Fail(read(verb, rest)?),
            "BEAT" => Self::Beat(read(verb, rest)?),
            "INFO" => Self::Info,
            "FLUSH" => Self::Flush,
            "END" => Self::End,
            "QUEUE" => queue(rest)?,
            "MUTATE" => Self::Mutate(read(verb, rest)?),
            "BATCH" | "TRACK" => {
                return Err(Refusal::new(format!("{verb} is not spoken here: see docs/operate/faktory.md")));
            }
            _ => {
                let shown: String = verb.chars().take(20).collect();
                return Err(Refusal::new(format!("Unknown command {shown}")));
            }
        })
    }
}

fn names(rest: &str) -> Result<Vec<String>, Refusal> {
    let mut names: Vec<String> = Vec::new();
    for name in rest.split_ascii_whitespace() {
        // The order is that of the first mention.
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        if names.len() > MAX_QUEUES {
            return Err(Refusal::new(format!("Invalid queues: at most {MAX_QUEUES}")));
        }
    }
    Ok(names)
}

fn queue(rest: &str) -> Result<Command, Refusal> {
    let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let verb = match verb.to_ascii_uppercase().as_str() {
        "PAUSE" => QueueVerb::Pause,
        "RESUME" | "UNPAUSE" => QueueVerb::Resume,
        "REMOVE" => QueueVerb::Remove,
        "LATENCY" => QueueVerb::Latency,
        _ => {
            let shown: String = verb.chars().take(20).collect();
            return Err(Refusal::new(format!("Invalid QUEUE: must be PAUSE, RESUME, REMOVE or LATENCY: {shown}")));
        }
    };
    match names(rest)? {
        names if names.is_empty() => Err(Refusal::new("Invalid QUEUE: name queues, or * for all")),
        names => Ok(Command::Queue(verb, names)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz::fuzz;

    fn refused(line: &str) -> String {
        Command::parse(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn each_command_is_read() {
        let parse = |line: &str| Command::parse(line.as_bytes()).unwrap();
        assert!(matches!(parse(r#"PUSH {"jid":"12345678","jobtype":"t","args":[]}"#), Command::Push(_)));
        assert!(matches!(parse("PUSHB [{},1]"), Command::PushMany(jobs) if jobs.len() == 2));
        assert!(matches!(parse("FETCH"), Command::Fetch(queues) if queues == ["default"]));
        assert!(matches!(parse("FETCH b a  b"), Command::Fetch(queues) if queues == ["b", "a"]));
        assert!(matches!(parse(r#"ACK {"jid":"x"}"#), Command::Ack(jid) if jid == "x"));
        let fail = parse(r#"FAIL {"jid":"x","errtype":"E","message":"m","backtrace":["a"]}"#);
        assert!(matches!(fail, Command::Fail(Failure { errtype: Some(_), message: Some(_), backtrace: Some(_), .. })));
        assert!(matches!(parse(r#"BEAT {"wid":"w","rss_kb":1}"#), Command::Beat(beat) if beat.wid == "w"));
        assert!(matches!(parse("QUEUE PAUSE *"), Command::Queue(QueueVerb::Pause, names) if names == ["*"]));
        let mutate = parse(r#"MUTATE {"cmd": "kill", "target": "retries", "filter": {"jids": null, "regexp": "*"}}"#);
        assert!(matches!(mutate, Command::Mutate(Mutation { cmd: MutationVerb::Kill, target: Target::Retries, .. })));
        assert!(matches!((parse("INFO"), parse("FLUSH"), parse("END")), (Command::Info, Command::Flush, Command::End)));
    }

    #[test]
    fn an_unknown_command_is_an_error_that_names_it() {
        assert_eq!(refused("push {}"), "ERR Unknown command push");
        assert_eq!(refused("BATCH NEW {}"), "ERR BATCH is not spoken here: see docs/operate/faktory.md");
        assert_eq!(refused("QUEUE DROP a"), "ERR Invalid QUEUE: must be PAUSE, RESUME, REMOVE or LATENCY: DROP");
        assert_eq!(refused("QUEUE PAUSE"), "ERR Invalid QUEUE: name queues, or * for all");
        assert_eq!(Command::parse(b"PUSH \xff").unwrap_err().to_string(), "ERR Invalid command: not UTF-8");
        assert!(refused("ACK {\"jid\":\n1}").starts_with("ERR Invalid ACK: "));
    }

    proptest! {
        #[test]
        fn no_line_panics_and_no_error_breaks_the_line(line in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz(&line);
        }

        #[test]
        fn no_json_panics(verb in "(PUSH|PUSHB|ACK|FAIL|BEAT|MUTATE|QUEUE|FETCH) ", rest in "[\\[\\]{}\":,a-z0-9.\\\\eE+-]{0,80}") {
            fuzz(format!("{verb}{rest}").as_bytes());
        }
    }
}

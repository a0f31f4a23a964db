//! One client: its greeting, and one command after another.
//!
//! A client may send commands before it has read the replies. They are worked on in their order.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uniqueue_remote::{JobResult, Remote};

use crate::ack;
use crate::command::{Beat, Command, QueueVerb};
use crate::door::Door;
use crate::fetches::{FETCH_WAIT, Wanted, give_back};
use crate::hello::{Challenge, Identity, Rights};
use crate::info::{info, queue};
use crate::line::{Line, LineLimits, Lines};
use crate::mutate::{flush, mutate};
use crate::push::{push, push_many};
use crate::reply::{Refusal, Reply};
use crate::sent::{self, Fetched};
use crate::workers::WorkerState;

/// The name of a worker that gives none.
const NO_NAME: &str = "faktory";

/// The most bytes of a greeting.
const MAX_GREETING: usize = 4_096;

/// The byte stream of a connection: TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

pub(crate) type AnyStream = Pin<Box<dyn Stream>>;

/// The connection of a client.
struct Session<'a> {
    door: &'a Door,
    lines: Lines<ReadHalf<AnyStream>>,
    writer: WriteHalf<AnyStream>,
}

/// Serves one client until it leaves.
pub(crate) async fn run(
    door: &Door,
    stream: AnyStream,
    peer: Option<IpAddr>,
    stranger: &CancellationToken,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let mut session = Session { door, lines: Lines::new(reader), writer };
    let identity = tokio::select! {
        greeted = timeout(door.limits.greeting, session.greet(peer)) => greeted.map_err(|_| io::ErrorKind::TimedOut)??,
        () = stranger.cancelled() => return Ok(()),
        () = door.stop.cancelled() => return Ok(()),
    };
    let Some(identity) = identity else { return Ok(()) };
    let Some(_place) = door.connection_limit.known() else {
        let text = format!("Too many connections: at most {}", door.limits.connections);
        return session.reply(&Reply::from(Refusal::new(text))).await;
    };
    stranger.cancel();
    session.reply(&Reply::Ok).await?;
    let wid = &identity.wid;
    if !wid.is_empty() {
        door.workers.enter(wid);
    }
    door.counts.connections.fetch_add(1, Ordering::Relaxed);
    let ended = session.serve(&identity).await;
    door.counts.connections.fetch_sub(1, Ordering::Relaxed);
    drop(session);
    if !wid.is_empty() && door.workers.leave(wid) {
        // A fetch that is under way would enter the worker again.
        tokio::select! {
            () = sleep(FETCH_WAIT / 2) => {}
            () = door.stop.cancelled() => {}
        }
        if !door.workers.is_alive(wid)
            && let Err(error) = Remote::new(&door.client).stop_worker(wid.clone()).await
        {
            tracing::debug!(%error, "cannot remove a worker that has left");
        }
    }
    ended
}

impl Session<'_> {
    /// Sends the challenge and reads the answer. `None`: the client was refused, or has left.
    async fn greet(&mut self, peer: Option<IpAddr>) -> io::Result<Option<Identity>> {
        let door = self.door;
        let challenge = door.users.challenge();
        self.writer.write_all(Challenge::greeting(challenge.as_ref()).as_bytes()).await?;
        let greeting = door.limits.greeting;
        let limits = LineLimits { bytes: MAX_GREETING, idle: greeting, whole: greeting };
        let identified = match self.lines.next(limits, &door.long_lines).await? {
            Line::Read(line, _) if line == b"END" => return Ok(None),
            Line::Read(line, _) => door.users.identify(&line, challenge, peer).await,
            Line::TooLong => Err(Refusal::new(format!("Invalid greeting: longer than {MAX_GREETING} bytes"))),
            Line::Closed | Line::TooSlow | Line::Idle => return Ok(None),
        };
        match identified {
            Ok(identity) => Ok(Some(identity)),
            Err(refusal) => self.refuse(refusal).await.map(|()| None),
        }
    }

    async fn serve(&mut self, identity: &Identity) -> io::Result<()> {
        let door = self.door;
        let limits = LineLimits { bytes: door.limits.message, idle: door.limits.idle, whole: door.limits.transfer };
        loop {
            let read = tokio::select! {
                read = self.lines.next(limits, &door.long_lines) => read?,
                () = door.stop.cancelled() => return Ok(()),
            };
            let (line, _permit) = match read {
                Line::Read(line, permit) => (line, permit),
                Line::Idle if door.workers.is_alive(&identity.wid) => continue,
                Line::Closed | Line::Idle => return Ok(()),
                Line::TooLong => {
                    let text = format!("Invalid command: longer than {} bytes", door.limits.message);
                    return self.refuse(Refusal::new(text)).await;
                }
                Line::TooSlow => return self.refuse(Refusal::new("The command was sent too slowly")).await,
            };
            if line.is_empty() {
                continue;
            }
            door.counts.commands.fetch_add(1, Ordering::Relaxed);
            let reply = match Command::parse(&line) {
                Ok(Command::End) => return Ok(()),
                Ok(Command::Fetch(queues)) if identity.rights == Rights::All => {
                    if !self.fetch(identity, queues).await? {
                        return Ok(());
                    }
                    continue;
                }
                Ok(command) => work(door, identity, command).await.unwrap_or_else(Reply::from),
                Err(refusal) => Reply::from(refusal),
            };
            self.reply(&reply).await?;
        }
    }

    /// Answers a command that is not read to its end, and ends the connection.
    async fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        self.reply(&Reply::from(refusal)).await?;
        self.writer.shutdown().await?;
        self.lines.drain().await;
        Ok(())
    }

    async fn reply(&mut self, reply: &Reply) -> io::Result<()> {
        let sent = timeout(self.door.limits.transfer, self.writer.write_all(&reply.bytes())).await;
        sent.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Waits for a job and sends it. Returns whether the client is still there.
    async fn fetch(&mut self, identity: &Identity, queues: Vec<String>) -> io::Result<bool> {
        let (door, worker) = (self.door, worker(identity).to_owned());
        if door.workers.state(&identity.wid) != WorkerState::Running {
            tokio::select! {
                () = sleep(FETCH_WAIT) => {}
                () = self.lines.closed() => return Ok(false),
                () = door.stop.cancelled() => {}
            }
            return self.reply(&Reply::Null).await.map(|()| true);
        }
        let mut answer = door.fetches.ask(Wanted { worker: worker.clone(), queues }).await;
        let (fetched, is_there) = tokio::select! {
            fetched = &mut answer => (fetched.ok(), true),
            () = sleep(FETCH_WAIT) => (None, true),
            () = self.lines.closed() => (None, false),
            () = door.stop.cancelled() => (None, true),
        };
        // A job that came at that moment is in the channel.
        answer.close();
        let fetched = match fetched.or_else(|| answer.try_recv().ok()) {
            None => return if is_there { self.reply(&Reply::Null).await.map(|()| true) } else { Ok(false) },
            Some(Err(refusal)) => {
                // A worker that asks again at once must not do so in a loop.
                sleep(FETCH_WAIT / 2).await;
                return self.reply(&Reply::from(refusal)).await.map(|()| true);
            }
            Some(Ok(fetched)) => fetched,
        };
        if is_there && self.send(&fetched, &worker).await.is_ok() {
            return Ok(true);
        }
        // The client has gone.
        door.reserved.remove(&fetched.jid, &worker, fetched.job.run);
        give_back(&door.client, vec![JobResult::give_back(fetched.job.run)]).await;
        Ok(false)
    }

    async fn send(&mut self, fetched: &Fetched, worker: &str) -> io::Result<()> {
        self.door.queues.changed();
        let job = sent::json(fetched, false).map_err(|refusal| io::Error::other(refusal.text))?;
        self.door.reserved.add(fetched, worker);
        self.reply(&Reply::Value(job)).await
    }
}

/// Does what a command says, other than a fetch.
async fn work(door: &Door, identity: &Identity, command: Command) -> Result<Reply, Refusal> {
    let may_read = matches!(&command, Command::Info | Command::Beat(_))
        || matches!(&command, Command::Queue(QueueVerb::Latency, _));
    if identity.rights != Rights::All && !may_read {
        return Err(Refusal::new("This password may only read"));
    }
    let reply = answer(door, identity, command).await;
    if !may_read {
        door.queues.changed();
    }
    reply
}

async fn answer(door: &Door, identity: &Identity, command: Command) -> Result<Reply, Refusal> {
    let actor = identity.name.as_str();
    match command {
        Command::Push(payload) => push(door, *payload).await.map(|()| Reply::Ok),
        Command::PushMany(items) => {
            let refused = push_many(door, &items).await?;
            Ok(Reply::Value(json!(refused).to_string()))
        }
        Command::Ack(jid) => ack::ack(door, &jid, worker(identity)).await.map(|()| Reply::Ok),
        Command::Fail(failure) => ack::fail(door, failure, worker(identity)).await.map(|()| Reply::Ok),
        Command::Beat(Beat { wid, current_state }) => {
            let state = door.workers.beat(&wid, current_state.as_deref());
            let state = state.ok_or_else(|| Refusal::new(format!("Unknown worker {wid}")))?;
            Ok(state.word().map_or(Reply::Ok, |word| Reply::Value(json!({ "state": word }).to_string())))
        }
        Command::Info => Ok(Reply::Value(info(door).await?.to_string())),
        Command::Flush => flush(&door.client, actor).await.map(|()| Reply::Ok),
        Command::Queue(verb, names) => queue(door, verb, names, actor).await,
        Command::Mutate(mutation) => mutate(&door.client, mutation, actor).await.map(|()| Reply::Ok),
        Command::Fetch(_) | Command::End => Err(Refusal::new("This password may only read")),
    }
}

/// The name of the worker.
fn worker(identity: &Identity) -> &str {
    match identity.wid.as_str() {
        "" => NO_NAME,
        wid => wid,
    }
}

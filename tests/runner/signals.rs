//! Signals during a stop, in a process of its own.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use uniqueue::shutdown_signal;

use support::prelude::*;

/// Names the schema and the URL for the process.
const ORDER: &str = "UNIQUEUE_TEST_SIGNALS";

/// Prints each message on a line of its own.
struct Printer;

impl<S: Subscriber> Layer<S> for Printer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Message);
    }
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            println!("\nsaid: {value:?}");
        }
    }
}

/// Not a test of its own: the process of the test below. Its job never ends.
#[tokio::test]
async fn the_signalled_process() {
    let Ok(order) = std::env::var(ORDER) else { return };
    std::thread::spawn(|| {
        // The other end closes when the test's process ends, however it does.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Printer)).unwrap();
    let (schema, url) = order.split_once(' ').unwrap();
    let client = Client::builder().schema(SchemaName::new(schema).unwrap()).connect(url).await.unwrap();
    let work = |_: RunningJob<Task>| async {
        println!("\nstarted");
        std::future::pending::<()>().await;
    };
    let runner = Runner::new(client).queue("default", 1).worker(work).stop_timeout(HOUR);
    runner.run_until(shutdown_signal()).await.unwrap();
    println!("\nstopped");
}

fn until_line(lines: &mut BufReader<ChildStdout>, beginning: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before {beginning:?}");
        if line.starts_with(beginning) {
            return line;
        }
    }
}

fn terminate(process: &Child) {
    let sent = Command::new("kill").args(["-s", "TERM", &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[support::test]
async fn a_stop_says_what_it_waits_for_and_a_second_signal_hurries_it(database: Database) {
    let id = database.client.insert(Task { n: 1 }).await.unwrap().id();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::the_signalled_process"), "--nocapture"])
        .env(ORDER, format!("{} {}", database.schema, database.url))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Waiting for the process closes its standard input, at whose end it would exit.
    let stdin = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let ended = tokio::task::spawn_blocking(move || {
        until_line(&mut lines, "started");
        terminate(&child);
        assert_eq!(until_line(&mut lines, "said: waiting"), "said: waiting for 1 job, up to 1h\n");
        terminate(&child);
        until_line(&mut lines, "said: another signal: jobs that still run are given back");
        until_line(&mut lines, "stopped");
        let status = child.wait().unwrap();
        drop(stdin);
        status
    });
    assert!(ended.await.unwrap().success());
    let job = database.client.job(id).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Available, 0), "given back without using up the attempt");
}

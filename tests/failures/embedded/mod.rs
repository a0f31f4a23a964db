//! The embedded server: found, started, reached, stopped, and ended when its owner ends in any way.

mod orphans;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::num::NonZeroU16;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::{env, thread};

use uniqueue::embedded::find_or_start;

use support::by_url::{execute, number};
use support::prelude::*;

/// Says in a child process what to do; see [`owner_process`].
const ORDER: &str = "UNIQUEUE_TEST_EMBEDDED";

/// How long a server may live on after its owner.
const AFTERLIFE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn server_starts_and_answers() {
    let postgres = Postgres::start().await.unwrap();
    let version = number(postgres.url(), "SELECT current_setting('server_version_num')::bigint / 10000").await;
    assert_eq!(version, i64::from(postgres.version().major()));
    assert!(postgres.binaries().join("postgres").is_file());
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn servers_run_side_by_side() {
    let (first, second, third) = tokio::join!(Postgres::start(), Postgres::start(), Postgres::start());
    let servers = [first.unwrap(), second.unwrap(), third.unwrap()];
    for (server, statement) in servers.iter().zip(["CREATE TABLE a ()", "CREATE TABLE a ()", "CREATE TABLE a ()"]) {
        execute(server.url(), statement).await;
    }
}

#[tokio::test]
async fn server_outlives_the_runtime_that_started_it() {
    let start = || tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(Postgres::start());
    let postgres = thread::spawn(start).join().unwrap().unwrap();
    assert_eq!(number(postgres.url(), "SELECT 1::bigint").await, 1);
}

#[tokio::test]
async fn stop_removes_everything_despite_open_connections() {
    let postgres = Postgres::start().await.unwrap();
    let home = postgres.data_dir().parent().unwrap().to_owned();
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
    let _open = PgConnection::connect(postgres.url()).await.unwrap();
    postgres.stop().await.unwrap();
    assert!(!home.exists());
}

#[tokio::test]
async fn drop_removes_everything() {
    let postgres = Postgres::start().await.unwrap();
    let home = postgres.data_dir().parent().unwrap().to_owned();
    drop(postgres);
    eventually("the directory is gone", || !home.exists());
}

#[tokio::test]
async fn url_is_good_for_psql() {
    let postgres = Postgres::start().await.unwrap();
    match Command::new("psql").args(["-XAtc", "SELECT 40 + 2"]).arg(postgres.url()).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}"),
        Err(missing) => support::tools::lacks("psql", &missing.to_string()),
    }
}

#[tokio::test]
async fn throw_away_server_is_fast_and_settings_win() {
    let limit = 17;
    let postgres = Postgres::builder().max_connections(limit).setting("wal_level", "logical");
    let postgres = postgres.setting("max_wal_senders", "3").start().await.unwrap();
    let url = postgres.url();
    assert_eq!(number(url, "SELECT current_setting('max_connections')::bigint").await, 17);
    assert_eq!(number(url, "SELECT (current_setting('wal_level') = 'logical')::int::bigint").await, 1);
    assert_eq!(number(url, "SELECT (current_setting('fsync') = 'off')::int::bigint").await, 1);
}

#[tokio::test]
async fn the_address_stays_as_it_is_whatever_the_settings_say() {
    for name in ["unix_socket_directories", "Unix-Socket-Directories", "port", "listen_addresses", "lc_messages"] {
        let value = if name == "port" { "5433" } else { "/nonexistent" };
        let postgres = Postgres::builder().setting(name, value).start().await.unwrap();
        assert_eq!(number(postgres.url(), "SELECT 1::bigint").await, 1, "{name}");
    }
}

#[tokio::test]
async fn wrong_setting_is_an_error_that_names_it() {
    let error = Postgres::builder().setting("no_such_thing", "1").start().await.unwrap_err();
    let expected = "PostgreSQL did not start: unrecognized configuration parameter \"no_such_thing\"";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[tokio::test]
async fn kept_directory_keeps_its_tables() {
    let scratch = Scratch::new("kept");
    let directory = scratch.0.join("data");
    let builder = Postgres::builder().data_dir(&directory);

    let postgres = builder.clone().start().await.unwrap();
    assert_eq!(number(postgres.url(), "SELECT (current_setting('fsync') = 'on')::int::bigint").await, 1);
    execute(postgres.url(), "CREATE TABLE kept ()").await;
    let home = PathBuf::from(postgres.url().split_once("host=").unwrap().1.replace("%2F", "/"));
    postgres.stop().await.unwrap();
    assert!(!home.exists() && directory.join("server.log").exists());

    let postgres = builder.durability(Durability::Fast).start().await.unwrap();
    assert_eq!(number(postgres.url(), "SELECT count(*) FROM kept").await, 0);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn directory_in_use_is_an_error() {
    let scratch = Scratch::new("in-use");
    let builder = Postgres::builder().data_dir(scratch.0.join("data")).durability(Durability::Fast);
    let (first, second) = tokio::join!(builder.clone().start(), builder.start());
    let (winner, error) = match (first, second) {
        (Ok(winner), Err(error)) | (Err(error), Ok(winner)) => (winner, error),
        other => panic!("one of two should start: {other:?}"),
    };
    assert!(error.to_string().starts_with("the data directory is in use by another server: /"), "{error}");
    assert_eq!(number(winner.url(), "SELECT 1::bigint").await, 1);
    winner.stop().await.unwrap();
}

#[tokio::test]
async fn directory_of_another_major_version_is_an_error() {
    let scratch = Scratch::new("major");
    fs::write(scratch.0.join("PG_VERSION"), "13\n").unwrap();
    let error = Postgres::builder().data_dir(&scratch.0).start().await.unwrap_err().to_string();
    assert!(error.contains("but of 13: /") && error.contains("hint: set PG_BINDIR to the binaries of"), "{error}");
}

#[tokio::test]
async fn directory_of_something_else_is_an_error() {
    let scratch = Scratch::new("foreign");
    fs::write(scratch.0.join("diary.txt"), "dear diary").unwrap();
    let error = Postgres::builder().data_dir(&scratch.0).start().await.unwrap_err().to_string();
    assert!(error.starts_with("the data directory is neither empty nor PostgreSQL's: /"), "{error}");
}

#[tokio::test]
async fn port_is_served_on_loopback_and_refused_when_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = NonZeroU16::new(taken.local_addr().unwrap().port()).unwrap();
    let builder = Postgres::builder().port(port);
    let error = builder.clone().start().await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("the port is in use: {port};")), "{error}");

    drop(taken);
    let postgres = builder.start().await.unwrap();
    assert_eq!(postgres.url(), format!("postgres://postgres@127.0.0.1:{port}/postgres"));
    let query = "SELECT (inet_server_addr() = '127.0.0.1')::int::bigint";
    assert_eq!(number(postgres.url(), query).await, 1);
}

#[test]
fn killed_owner_leaves_nothing_behind() {
    let mut owner = Owner::start("start", &[]);
    let (server, home) = (owner.said("server"), owner.said("home"));
    assert!(runs(&server) && Path::new(&home).exists());
    owner.kill();
    eventually("server and home are gone", || !runs(&server) && !Path::new(&home).exists());
}

#[test]
fn owner_killed_during_initdb_leaves_nothing_behind() {
    let scratch = Scratch::new("early");
    open_to_all(&scratch.0);
    let mut owner = Owner::start("start", &[("TMPDIR", scratch.0.to_str().unwrap())]);
    let started = || fs::read_dir(&scratch.0).unwrap().flatten().any(|home| home.path().join("data").exists());
    eventually("initdb has begun", started);
    owner.kill();
    eventually("nothing is left", || fs::read_dir(&scratch.0).unwrap().next().is_none());
}

#[test]
fn killed_owner_leaves_kept_data_in_order() {
    let scratch = Scratch::new("killed");
    let directory = scratch.0.join("data");
    for _ in 0..2 {
        let mut owner = Owner::start(directory.to_str().unwrap(), &[]);
        let (server, home) = (owner.said("server"), owner.said("home"));
        owner.kill();
        eventually("server and home are gone", || !runs(&server) && !Path::new(&home).exists());
        assert!(directory.join("PG_VERSION").exists());
        let log = fs::read_to_string(directory.join("server.log")).unwrap();
        assert!(log.contains("database system is shut down"), "{log}");
    }
}

/// What a terminal's Ctrl-C goes to is the foreground process group, which is the owner's.
#[test]
#[cfg(target_os = "linux")]
fn server_is_not_in_the_process_group_of_its_owner() {
    let mut owner = Owner::start("start", &[]);
    let group = |process: &str| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().to_owned()
    };
    assert_ne!(group(&owner.said("server")), group(&owner.child.id().to_string()));
}

#[test]
fn wrong_pg_bindir_is_an_error_that_names_it() {
    let mut owner = Owner::start("start", &[("PG_BINDIR", "/nowhere")]);
    assert_eq!(owner.said("error"), "PG_BINDIR does not hold initdb and postgres: /nowhere; hint: install PostgreSQL");
}

#[test]
fn database_url_wins_unless_it_is_empty() {
    let given = "postgres://somewhere/else";
    assert_eq!(Owner::start("find", &[("DATABASE_URL", given)]).said("url"), given);
    let url = Owner::start("find", &[("DATABASE_URL", "")]).said("url");
    assert!(url.starts_with("postgres://postgres@localhost:5432/postgres?host=%2F"), "{url}");
}

#[test]
fn unfit_temporary_directory_is_not_used() {
    let scratch = Scratch::new("long");
    let long = scratch.0.join("x".repeat(80));
    fs::create_dir(&long).unwrap();
    open_to_all(&long);
    for unfit in [long.to_str().unwrap(), "/nowhere"] {
        let home = Owner::start("start", &[("TMPDIR", unfit)]).said("home");
        assert!(home.starts_with("/tmp/uniqueue-"), "{home}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn data_is_in_memory_where_that_is_asked_for_and_has_room() {
    assert!(Owner::start("start", &[]).said("home").starts_with("/tmp/uniqueue-"));
    let memory = Command::new("df").args(["-Pk", "/dev/shm"]).output().unwrap();
    let memory = String::from_utf8_lossy(&memory.stdout).into_owned();
    let free = memory.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    // The servers of other tests take memory too, so this test asks for twice the limit.
    if memory.trim_end().ends_with(" /dev/shm") && free.is_some_and(|free| free > 8 << 20) {
        let home = Owner::start("start in memory", &[]).said("home");
        assert!(home.starts_with("/dev/shm/uniqueue-"), "{home}");
    } else {
        support::tools::lacks("memory", "8 GiB that are free in /dev/shm");
    }
    // A directory that TMPDIR names is used instead.
    let home = Owner::start("start in memory", &[("TMPDIR", "/tmp")]).said("home");
    assert!(home.starts_with("/tmp/uniqueue-"), "{home}");
}

#[test]
fn variables_for_another_server_are_not_heard() {
    let other = [("PGPORT", "1"), ("PGDATA", "/nowhere"), ("PGOPTIONS", "-c nonsense=1")];
    let url = Owner::start("start", &other).said("url");
    assert!(url.starts_with("postgres://postgres@localhost:5432/"), "{url}");
}

#[tokio::test]
async fn directory_that_the_servers_user_cannot_reach_is_an_error() {
    let scratch = Scratch::new("closed");
    let closed = scratch.0.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if fs::metadata(&closed).unwrap().uid() != 0 {
        return;
    }
    let error = Postgres::builder().data_dir(closed.join("data")).start().await.unwrap_err().to_string();
    assert!(error.contains("cannot write to the data directory: /tmp/"), "{error}");
}

/// Tests that run as root know this from the server's own change of user; so the owner changes here.
#[test]
#[cfg(target_os = "linux")]
fn ordinary_user_starts_a_server() {
    // Only root can become another user. An ordinary user's run of all the other tests is this test.
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let mut owner = Owner::start_as(Some(65534), "start", &[("HOME", "/nonexistent")]);
    let server = owner.said("server");
    assert_eq!(fs::metadata(format!("/proc/{server}")).unwrap().uid(), 65534);
    owner.kill();
    eventually("the server is gone", || !runs(&server));
}

/// Not a test of its own: the other process in those above, which does as the variable says until its input ends.
#[tokio::test]
async fn owner_process() {
    let Ok(order) = env::var(ORDER) else { return };
    let postgres = match order.as_str() {
        "find" => {
            println!("\nurl: {}", find_or_start().await.unwrap().url());
            return;
        }
        "start" => Postgres::start().await,
        "start in memory" => Postgres::builder().in_memory().start().await,
        directory => Postgres::builder().data_dir(directory).start().await,
    };
    match &postgres {
        Ok(postgres) => {
            let status = fs::read_to_string(postgres.data_dir().join("postmaster.pid")).unwrap();
            println!("\nserver: {}", status.lines().next().unwrap());
            println!("home: {}", status.lines().nth(4).unwrap());
            println!("url: {}", postgres.url());
        }
        Err(error) => println!("\nerror: {error}"),
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// This test binary once more, running [`owner_process`].
struct Owner {
    child: Child,
    output: Box<dyn BufRead>,
}

impl Owner {
    fn start(order: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_as(None, order, variables)
    }

    fn start_as(user: Option<u32>, order: &str, variables: &[(&str, &str)]) -> Self {
        // Another user may not be able to enter the directories above the binary, but can run what it is already.
        let mut command = match user {
            Some(_) => Command::new("/proc/self/exe"),
            None => Command::new(env::current_exe().unwrap()),
        };
        if let Some(user) = user {
            command.uid(user).gid(user).current_dir("/");
        }
        let name = match module_path!().split_once("::") {
            Some((_, module)) => format!("{module}::owner_process"),
            None => "owner_process".to_owned(),
        };
        command.args([&name, "--exact", "--nocapture"]).env(ORDER, order);
        command.env_remove("DATABASE_URL").env_remove("TMPDIR");
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this test binary runs again");
        let output = child.stdout.take().expect("it was piped");
        Self { child, output: Box::new(BufReader::new(output)) }
    }

    /// The rest of the line that begins with the word.
    fn said(&mut self, word: &str) -> String {
        let mut lines = Vec::new();
        for line in self.output.by_ref().lines() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(": ")) {
                return rest.to_owned();
            }
            lines.push(line);
        }
        panic!("it did not say {word:?}: {lines:#?}");
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Its input ends first.
        let _ = self.child.wait();
    }
}

/// A directory of this test's, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let directory = PathBuf::from(format!("/tmp/uq-test-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
}

fn runs(process: &str) -> bool {
    Command::new("sh").args(["-c", "kill -0 \"$0\" 2>/dev/null", process]).status().unwrap().success()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually!(blocking holds(), "not within {AFTERLIFE:?}: {what}");
}

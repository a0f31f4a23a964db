//! PgBouncer in transaction mode, in front of the run's cluster.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio::sync::OnceCell;

use crate::eventually;
use crate::tools::lacks;
use crate::url;

static SHARED: OnceCell<Option<Bouncer>> = OnceCell::const_new();

/// The pooler of this run, which keeps prepared statements apart. `None`: this machine has none.
pub async fn shared() -> Option<&'static Bouncer> {
    SHARED.get_or_init(|| Bouncer::start("max_prepared_statements = 200")).await.as_ref()
}

/// A pooler, gone as soon as this process is.
pub struct Bouncer {
    _guard: Child,
    home: PathBuf,
}

impl Bouncer {
    /// Starts a pooler of version 1.21 or newer, if there is one: that of `PGBOUNCER`, else of `PATH`.
    pub async fn start(setting: &str) -> Option<Self> {
        let given = std::env::var("PGBOUNCER").ok().filter(|given| !given.is_empty());
        let program = given.unwrap_or_else(|| "pgbouncer".to_owned());
        if version(&program).is_none_or(|version| version < (1, 21)) {
            lacks("pgbouncer", "version 1.21 or newer in PATH, or named by PGBOUNCER=$(scripts/pgbouncer)");
            return None;
        }
        let (_, server) = url().await.split_once("host=").expect("a socket");
        let server = server.replace("%2F", "/");
        // It refuses root, and only the server's user reaches the socket.
        let owner = fs::metadata(&server).expect("the server's directory");
        let home = std::env::temp_dir().join(format!("uq-bouncer-{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir(&home).expect("a directory");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("its mode");
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if is_root {
            chown(&home, Some(owner.uid()), Some(owner.gid())).expect("its owner");
        }
        let settings = home.join("pgbouncer.ini");
        fs::write(&settings, ini(&server, &home, setting)).expect("the settings");
        let mut command = Command::new("/bin/sh");
        // As the cluster's guard does: the end of standard input is the order to stop.
        command
            .args(["-c", "exec 3<&0; \"$0\" \"$1\" 3<&- & p=$!; cat <&3 >/dev/null; kill $p; wait $p; rm -rf \"$2\""])
            .args([program.as_ref(), settings.as_path(), home.as_path()])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if is_root {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let guard = command.spawn().expect("a shell");
        let log = || fs::read_to_string(home.join("log")).unwrap_or_default();
        eventually!(home.join(".s.PGSQL.6432").exists(), "PgBouncer does not start: {}", log());
        Some(Self { _guard: guard, home })
    }

    /// The URL of a database through the pooler. `direct`: without it.
    pub fn url(&self, direct: &str) -> String {
        let (address, _) = direct.split_once("?host=").expect("a socket");
        let host = self.home.display().to_string().replace('/', "%2F");
        format!("{}?host={host}", address.replace(":5432/", ":6432/"))
    }
}

fn ini(server: &str, home: &Path, setting: &str) -> String {
    let home = home.display();
    // Round robin, so that each transaction of a client meets another session than its last.
    format!(
        "[databases]
        * = host={server} port=5432 user=postgres
        [pgbouncer]
        pool_mode = transaction
        {setting}
        ignore_startup_parameters = extra_float_digits
        server_round_robin = 1
        default_pool_size = 20
        max_client_conn = 500
        listen_addr =
        listen_port = 6432
        unix_socket_dir = {home}
        auth_type = any
        logfile = {home}/log
        "
    )
    .lines()
    .map(|line| format!("{}\n", line.trim()))
    .collect()
}

fn version(program: &str) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.lines().next()?.strip_prefix("PgBouncer ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

//! The incident of docs/operate/doctor.md: made to happen, its commands run, its outputs compared, its remedy tried.

use std::process::Command;

use test_support::pause;
use test_support::prelude::*;

use crate::screen::{Screen, WAIT};
use crate::support::{has_psql, migrated, texts};

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "invoice.send", queue = "billing")]
struct SendInvoice {
    number: u32,
}

/// Set to write the outputs of the page anew: `GOLDEN=overwrite cargo test -p uniqueue-cli --test it incident`.
const OVERWRITE: &str = "GOLDEN";

/// The insert that the deployment does not commit, and that the shop waits for.
const CLOSE: &str = "SELECT duplicate FROM uniqueue.insert_job('report.close', queue => 'billing', \
    unique_policy => '{\"key\": \"report:2026-11\"}')";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/doctor.md");

/// A command of the page and what it printed there.
struct Shown {
    command: String,
    output: String,
}

fn shown(page: &str) -> Vec<Shown> {
    let blocks = page.split("```console\n$ ").skip(1).map(|rest| rest.split("```").next().unwrap());
    let shown = |block: &str| {
        let (command, output) = block.split_once('\n').unwrap();
        Shown { command: command.to_owned(), output: output.to_owned() }
    };
    blocks.map(shown).collect()
}

/// A text in which what is different each time is not: ids, numbers, and the widths of columns that follow them.
fn settled(text: &str) -> String {
    let text = without_ids(text).replace("sessions wait", "session waits");
    let mut settled = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_more = settled.ends_with('N');
        match letter {
            '0'..='9' if is_more => {}
            '0'..='9' => settled.push('N'),
            // 1.5s is 12s another time.
            '.' if is_more && letters.peek().is_some_and(char::is_ascii_digit) => {}
            // Columns are as wide as what is in them.
            ' ' | '-' if settled.ends_with(letter) => {}
            letter => settled.push(letter),
        }
    }
    settled.replace("Nms", "Ns").replace("under a second", "N s").replace("\n ", "\n")
}

/// Ids in one word.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let mut rest = text;
    let mut found = String::new();
    while !rest.is_empty() {
        match rest.get(..36).filter(|word| is_id(word)) {
            Some(_) => {
                found.push_str("ID");
                rest = &rest[36..];
            }
            None => {
                let letter = rest.chars().next().unwrap();
                found.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    found
}

struct Incident {
    url: String,
    pid: i32,
    page: String,
}

impl Incident {
    /// Runs the page's next command that begins so, and compares what it prints.
    fn run(&mut self, place: usize, beginning: &str, code: i32) -> String {
        let Shown { command, output } = shown(&self.page).remove(place);
        assert!(command.starts_with(beginning), "{command}");
        let printed = self.output_of(&command, code);
        if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
            let old = format!("$ {command}\n{output}```");
            self.page = self.page.replacen(&old, &format!("$ {}\n{printed}```", self.with_pid(&command)), 1);
        } else {
            let (page, now) = (settled(&output), settled(&printed));
            assert_eq!(page, now, "$ {command}\n{printed}\nhint: GOLDEN=overwrite, then read the page");
        }
        printed
    }

    fn output_of(&self, command: &str, code: i32) -> String {
        let binary = env!("CARGO_BIN_EXE_uniqueue");
        let line = self.with_pid(command).replacen("uniqueue ", &format!("{binary} "), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("DATABASE_URL", &self.url).env_remove("COLUMNS");
        let ran = shell.output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{command}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The page's session is another one each time.
    fn with_pid(&self, command: &str) -> String {
        match command.split_once("pg_terminate_backend(") {
            Some((before, rest)) => {
                let (_, after) = rest.split_once(')').unwrap();
                format!("{before}pg_terminate_backend({}){after}", self.pid)
            }
            None => command.to_owned(),
        }
    }

    /// Waits until a command of the page would say this.
    async fn until(&self, command: &str, code: i32, words: &[&str]) {
        let began = Instant::now();
        loop {
            let ran = Command::new("sh")
                .args(["-c", &command.replacen("uniqueue ", &format!("{} ", env!("CARGO_BIN_EXE_uniqueue")), 1)])
                .env("DATABASE_URL", &self.url)
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
            if ran.status.code() == Some(code) && words.iter().all(|word| printed.contains(word)) {
                return;
            }
            assert!(began.elapsed() < WAIT, "{command}: no {words:?} in {printed}");
            pause(began).await;
        }
    }
}

async fn connect(url: &str, name: &str) -> PgConnection {
    PgConnection::connect(&format!("{url}&application_name={name}")).await.unwrap()
}

#[tokio::test]
async fn the_page_is_what_happens_and_its_remedy_works() {
    let url = migrated("uniqueue").await;
    let client = Client::connect(&url).await.unwrap();
    client.queue("billing").limit(Some(2)).await.unwrap();
    let work = async |_: RunningJob<SendInvoice>| {};
    let runner = Runner::new(client.clone()).name("worker-1").queue("billing", 10).worker(work).start().await.unwrap();

    // A deployment that stopped in the middle.
    let mut deploy = connect(&url, "deploy").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut deploy).await.unwrap();
    for statement in ["BEGIN", "SELECT * FROM uniqueue.set_queue('billing', '{\"limit\": 4}')", CLOSE] {
        sqlx::raw_sql(statement).execute(&mut deploy).await.unwrap();
    }
    // Work that does not start, and an insert that waits.
    client.insert_many((1..=5).map(|number| NewJob::from(SendInvoice { number }))).await.unwrap();
    let shop = url.clone();
    let waiting = tokio::spawn(async move {
        let mut shop = connect(&shop, "shop").await;
        let inserted: bool = sqlx::query_scalar(CLOSE).fetch_one(&mut shop).await.unwrap();
        inserted
    });

    let shop = "SELECT wait_event_type::text FROM pg_stat_activity
        WHERE application_name = 'shop' AND datname = current_database()";
    eventually!(texts(&url, shop).await == ["Lock"], "the shop's insert does not wait");

    let mut incident = Incident { url: url.clone(), pid, page: std::fs::read_to_string(PAGE).unwrap() };
    let doctor = "uniqueue doctor --transaction 1s --waiting 1s";
    incident.until(doctor, 1, &["blocking_transaction", "queue_late", "for it"]).await;
    incident.run(0, "uniqueue queue list", 0);
    let said = incident.run(1, doctor, 1);
    assert!(said.contains(&format!("SELECT pg_terminate_backend({pid});")), "{said}");
    assert!(said.contains(&format!("session {pid} (deploy, ")), "{said}");
    let why = incident.run(2, "uniqueue unique show report:2026-11", 1);
    assert!(why.contains("deploy") && why.contains(&pid.to_string()), "{why}");
    if let Some(mut screen) = Screen::open(&url, "top --interval 200ms") {
        screen.press("5");
        screen.until(&["5 waiting inserts 1", "shop", "a key", &format!("{pid} deploy, idle in transaction")]).await;
        screen.until(&["billing", "limit 2"]).await;
        screen.press("q");
        assert_eq!(screen.end().await, Some(0));
    }
    if has_psql() {
        incident.run(3, "psql", 0);
    } else {
        sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(client.pool()).await.unwrap();
    }

    // The insert goes through, as the first with its key, and the queue goes on.
    assert!(!tokio::time::timeout(WAIT, waiting).await.unwrap().unwrap());
    let left = "SELECT count(*)::text FROM uniqueue.job WHERE kind = 'invoice.send' AND state <> 'completed'";
    eventually!(texts(&url, left).await == ["0"], "the queue does not go on");
    // Nobody works reports here: that is another story.
    client.cancel(uniqueue::JobFilter::new().kind("report.close")).await.unwrap();
    incident.until("uniqueue doctor", 0, &["ok: nothing found"]).await;
    incident.run(4, "uniqueue doctor", 0);
    runner.stop().await.unwrap();
    if std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite") {
        std::fs::write(PAGE, incident.page).unwrap();
    }
}

//! Eight places on four servers, through stops and crashes of the servers and of the runners.

use tokio::sync::Mutex;

use super::{ready, works};
use support::prelude::*;
use support::process::{postmaster, signal};

const NAMES: [&str; 8] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];

/// A server at an address that outlives its restarts.
struct Server {
    postgres: Option<Postgres>,
    directory: PathBuf,
    proxy: Proxy,
}

impl Server {
    async fn start(test: &str, number: usize) -> Self {
        let directory = support::directory(&format!("places-{test}-{number}")).await;
        let postgres = Self::run(&directory).await;
        let proxy = Proxy::before(postgres.url()).await;
        proxy.close_silent_after(Duration::from_secs(10));
        Self { postgres: Some(postgres), directory, proxy }
    }

    async fn run(directory: &Path) -> Postgres {
        let settings = Postgres::builder().setting("idle_in_transaction_session_timeout", "2s");
        settings.data_dir(directory.join("data")).max_connections(200).start().await.unwrap()
    }

    /// Ends the server as a crash would, and starts it again.
    async fn crash(&mut self) {
        let postgres = self.postgres.take().unwrap();
        signal(postmaster(postgres.data_dir()), "QUIT");
        let _ = postgres.stop().await;
        let postgres = Self::run(&self.directory).await;
        self.proxy.lead_to(postgres.url());
        self.postgres = Some(postgres);
    }

    /// Stops every process of the server. Answers with them, the parent first.
    async fn freeze(&self) -> Vec<u32> {
        let postgres = self.postgres.as_ref().unwrap();
        let mut connection = PgConnection::connect(postgres.url()).await.unwrap();
        let first = postmaster(postgres.data_dir());
        // From here on there is no new process.
        signal(first, "STOP");
        let sessions = sqlx::query("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() ORDER BY pid");
        let sessions = sessions.fetch_all(&mut connection).await.unwrap();
        let processes: Vec<_> =
            [first].into_iter().chain(sessions.iter().map(|row| row.get::<i32, _>(0).unsigned_abs())).collect();
        processes[1..].iter().for_each(|process| signal(*process, "STOP"));
        processes
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.postgres = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Four servers, each with two of the places.
async fn servers(test: &str) -> (Vec<Server>, PlaceMap) {
    let mut servers = Vec::new();
    for number in 0..4 {
        servers.push(Server::start(test, number).await);
    }
    let place = |(n, name): (usize, &&str)| {
        let schema = SchemaName::new(format!("queue_{name}")).unwrap();
        PlaceAddress::new(*name, &servers[n / 2].proxy.url()).unwrap().schema(schema)
    };
    let map = PlaceMap::new(NAMES.iter().enumerate().map(place)).unwrap().hashed(NAMES).unwrap();
    (servers, map)
}

/// Continues the processes of a server, the parent last: once it runs, a session that has ended can no longer be signalled.
fn thaw(frozen: &[u32]) {
    frozen.iter().rev().for_each(|process| signal(*process, "CONT"));
}

/// The JSON document of a map.
fn document(map: &PlaceMap) -> String {
    let place = |place: &PlaceAddress| json!({"name": place.name(), "url": place.url(), "schema": place.schema_name().as_str()});
    json!({"places": map.places().map(place).collect::<Vec<_>>(), "hashed": NAMES}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_server_stopped_the_others_go_on_at_once() {
    let (servers, map) = servers("stopped").await;
    let places = ready(map).await;
    let build = |client| Runner::new(client).queue("default", 4).worker(at_once).lease(Duration::from_secs(2));
    let handle = places.runner(build).slots(12).start().await.unwrap();
    for name in NAMES {
        works(&places, name).await;
    }
    let frozen = servers[0].freeze().await;
    let waiting = tokio::spawn({
        let places = places.clone();
        async move { places.at("p0").unwrap().insert(Task { n: 0 }).await }
    });
    // While it stands, every other place works one job after another.
    for _ in 0..soak(3, 30) {
        for name in &NAMES[2..] {
            works(&places, name).await;
        }
    }
    let answers = places.ask(|client| async move { Admin::new(&client).queues().await }).await;
    assert_eq!(answers.iter().filter(|(_, answer)| answer.is_err()).count(), 2);
    assert!(answers.iter().all(|(place, answer)| match answer {
        Err(error) => matches!(error, Error::PlaceDown { .. }) && NAMES[..2].contains(&place.as_str()),
        Ok(_) => true,
    }));
    thaw(&frozen);
    // It comes back by itself, whatever became of the insert.
    let _ = waiting.await.unwrap();
    for name in &NAMES[..2] {
        works(&places, name).await;
    }
    handle.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_claimed_twice_and_nothing_is_lost_in_eight_places_on_four_servers() {
    let (mut servers, map) = servers("faults").await;
    let places = ready(map.clone()).await;
    let order = |number: u64| {
        let name = format!("places {number}");
        Order {
            places: Some(document(&map)),
            seed: number,
            ..Order::new(places.map().places().next().unwrap().url(), "", &name)
        }
    };
    let mut runners: Vec<_> = (0..2).map(|number| RunnerProcess::start(&order(number))).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    // Of each id that was sent its key, and the id that was answered.
    let acknowledged = Arc::new(Mutex::new(BTreeMap::<JobId, (String, JobId)>::new()));
    let mut inserters = Vec::new();
    for user in 0..3 {
        let (is_over, acknowledged, places) = (Arc::clone(&is_over), Arc::clone(&acknowledged), places.clone());
        inserters.push(tokio::spawn(async move {
            let mut dice = Dice::new(1, user);
            while !is_over.load(Ordering::Relaxed) {
                let (id, key) = (JobId::generate(), format!("key {}", dice.below(60)));
                let job = || {
                    let work = Work { deed: Deed::Plain, millis: 1 };
                    NewJob::from(work).unique_key(UniqueKey::raw(&key)).place(PlaceBy::UniqueKey).id(id)
                };
                // Sent again until it is answered, and once more for good measure.
                let first = loop {
                    match places.insert(job()).await {
                        Ok(answer) => break answer,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                };
                if dice.percent(20)
                    && let Ok(again) = places.insert(job()).await
                    && first.1.id() == id
                {
                    assert_eq!((again.0, again.1.id()), (first.0, id));
                }
                acknowledged.lock().await.insert(id, (key, first.1.id()));
            }
        }));
    }
    // Processes with other maps, which are refused all the time: another list, and places that are swapped.
    let mut reversed = NAMES;
    reversed.reverse();
    let swapped = map
        .places()
        .zip(reversed)
        .map(|(place, name)| PlaceAddress::new(name, place.url()).unwrap().schema(place.schema_name().clone()));
    let swapped = PlaceMap::new(swapped).unwrap().hashed(NAMES).unwrap();
    let wrong = [map.clone().hashed(reversed).unwrap(), swapped].map(super::open);
    let mut refusals = 0;
    let mut dice = Dice::new(7, 9);
    for _ in 0..soak(4, 40) {
        let server = usize::try_from(dice.below(4)).unwrap();
        match dice.below(4) {
            0 => servers[server].crash().await,
            1 => {
                let frozen = servers[server].freeze().await;
                tokio::time::sleep(dice.millis(200, 1_500)).await;
                thaw(&frozen);
            }
            2 => {
                let number = dice.below(1_000) + 10;
                let killed = &mut runners[usize::try_from(number % 2).unwrap()];
                killed.kill();
                *killed = RunnerProcess::start(&order(number));
            }
            _ => {
                servers[server].proxy.cut(&mut dice, 20);
            }
        }
        for wrong in &wrong {
            let refused = wrong.insert(NewJob::new("deed", &()).place(PlaceBy::Id)).await.unwrap_err();
            assert!(matches!(refused, Error::MapMismatch { .. }) || refused.is_retryable(), "{refused}");
            refusals += u32::from(matches!(refused, Error::MapMismatch { .. }));
        }
        tokio::time::sleep(dice.millis(300, 800)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for inserter in inserters {
        inserter.await.unwrap();
    }
    assert!(refusals > 0);
    let rows = finished(&places).await;
    let acknowledged = acknowledged.lock().await;
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    let mut ids = HashSet::new();
    for (place, row) in &rows {
        assert!(ids.insert(row.id), "{} is in two places", row.id);
        let key = row.unique_key.as_deref().unwrap();
        assert_eq!(places.map().place_of(key).unwrap().as_str(), place, "{key}");
        assert_eq!(row.state, JobState::Completed, "{:?}", row.errors);
    }
    // An insert whose answer was lost is a duplicate of itself when it is sent again.
    for (sent, (key, id)) in acknowledged.iter() {
        assert!(ids.contains(id), "{id} of {key}, the answer to {sent}, is lost");
    }
    for runner in &mut runners {
        runner.signal("TERM");
        runner.ended().await;
    }
}

/// All jobs with their places, when all are final.
async fn finished(places: &Places) -> Vec<(String, JobRow)> {
    let mut rows = Vec::new();
    for (place, client) in places.iter() {
        eventually!(
            let left = client.count_jobs(super::unfinished(), 10_000).await.map_or(u64::MAX, |count| count.counted());
            left == 0, "{place}: {left}"
        );
        let ids = AssertSqlSafe(format!("SELECT id FROM {}.job", client.schema().quoted()));
        let ids: Vec<Uuid> = sqlx::query_scalar(ids).fetch_all(client.pool()).await.unwrap();
        for id in ids {
            rows.push((place.to_string(), client.job(id).await.unwrap().unwrap()));
        }
    }
    rows
}

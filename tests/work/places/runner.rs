//! One process works all places.

use uniqueue::{PlaceState, PlacesHandle};

use super::{map, nowhere, open, ready, unfinished};
use support::by_url::database;
use support::prelude::*;

/// Places that are schemas of one database.
async fn in_one_database(names: &[&str]) -> Places {
    let url = database().await;
    let place =
        |name: &&str| PlaceAddress::new(*name, &url).unwrap().schema(SchemaName::new(format!("q_{name}")).unwrap());
    ready(PlaceMap::new(names.iter().map(place)).unwrap().hashed(names).unwrap()).await
}

async fn insert(client: &Client, jobs: u32) {
    client.insert_many((0..jobs).map(|n| Task { n })).await.unwrap();
}

pub(super) async fn until_worked(places: &Places) {
    for (place, client) in places.iter() {
        eventually!(
            let left = client.count_jobs(unfinished(), 1_000).await.unwrap().counted();
            left == 0, "{left} left in {place}"
        );
    }
}

/// The jobs that run, by place.
struct Running {
    now: BTreeMap<String, usize>,
    most: usize,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { now: BTreeMap::new(), most: 0 });
static GATE: Semaphore = Semaphore::const_new(0);

/// A runner whose jobs wait for a permit each.
fn held(client: Client) -> Runner {
    let place = client.place().unwrap().to_string();
    let work = move |_: RunningJob<Task>| {
        let place = place.clone();
        async move {
            let note = |by: isize| {
                let mut running = RUNNING.lock().unwrap();
                let now = running.now.entry(place.clone()).or_default();
                *now = now.checked_add_signed(by).unwrap();
                let all = running.now.values().sum();
                running.most = running.most.max(all);
            };
            note(1);
            GATE.acquire().await.unwrap().forget();
            note(-1);
        }
    };
    Runner::new(client).queue("default", 10).worker(work)
}

#[tokio::test]
async fn one_deep_place_and_seven_shallow_ones_share_slots_of_which_each_has_one() {
    let shallow = ["b", "c", "d", "e", "f", "g", "h"];
    let places = in_one_database(&["deep", "b", "c", "d", "e", "f", "g", "h"]).await;
    insert(places.at("deep").unwrap(), 40).await;
    let handle = places.runner(held).slots(11).start().await.unwrap();
    let count = |place: &str| RUNNING.lock().unwrap().now.get(place).copied().unwrap_or_default();
    // Three are borrowed, and one is its own.
    eventually!(let now = count("deep"); now == 4, "{now}");
    // The shallow places start at once, in their own slots.
    insert(places.at("b").unwrap(), 30).await;
    for place in &shallow[1..] {
        insert(places.at(place).unwrap(), 1).await;
    }
    eventually!(let now = shallow.map(count); now == [1; 7], "{now:?}");
    assert_eq!(count("deep"), 4);
    // As jobs of the deep place end, another place gets its part. One that is late for a slot gets a later one.
    let ended = || {
        GATE.add_permits(1);
        count("b")
    };
    eventually!(let now = ended(); now >= 2, "{now}");
    GATE.add_permits(100);
    until_worked(&places).await;
    assert_eq!(RUNNING.lock().unwrap().most, 11);
    handle.stop().await.unwrap();
}

fn quick(client: Client) -> Runner {
    support::quick(&client).worker(at_once)
}

fn state(handle: &PlacesHandle, place: &str) -> PlaceState {
    handle.states().into_iter().find(|(name, _)| name.as_str() == place).unwrap().1
}

#[tokio::test]
async fn a_place_that_cannot_be_worked_stops_only_itself_and_comes_back() {
    let whole = map(&["well", "newer", "unnamed"], &[]).await;
    let places = open(PlaceMap::new(whole.places().cloned().chain([nowhere("gone")])).unwrap());
    places.migrate().await;
    let named = open(PlaceMap::new(whole.places().take(2).cloned()).unwrap());
    for (_, named) in named.init().await {
        named.unwrap();
    }
    let newer = places.at("newer").unwrap();
    let version =
        "INSERT INTO uniqueue.schema_history (version, name, applied_on, checksum) VALUES (9999, 'x', '', '1')";
    sqlx::query(version).execute(newer.pool()).await.unwrap();
    let handle = places.runner(quick).start().await.unwrap();
    for (place, reason) in [
        ("newer", "which needs a uniqueue that knows"),
        ("unnamed", "has no name yet"),
        ("gone", "place gone is down: "),
    ] {
        eventually!(
            let now = state(&handle, place);
            matches!(&now, PlaceState::Down(told) if told.contains(reason)), "{place}: {now:?}"
        );
    }
    let well = places.at("well").unwrap();
    insert(well, 3).await;
    eventually!(
        let left = well.count_jobs(unfinished(), 10).await.unwrap().counted();
        left == 0, "{left}"
    );
    assert!(matches!(state(&handle, "well"), PlaceState::Working(_)));
    // They come back by themselves.
    sqlx::query("DELETE FROM uniqueue.schema_history WHERE version = 9999").execute(newer.pool()).await.unwrap();
    places.init().await;
    for place in ["newer", "unnamed"] {
        eventually!(let now = state(&handle, place); matches!(now, PlaceState::Working(_)), "{place}: {now:?}");
    }
    handle.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_waits_for_a_place_that_does_not_answer_for_seconds_only() {
    // Its clients wait 10 s for a connection.
    let places = Places::new(PlaceMap::new([nowhere("gone")]).unwrap());
    let start = places.runner(quick).start();
    let handle = timeout(Duration::from_secs(7), start).await.unwrap().unwrap();
    handle.stop().await.unwrap();
}

#[tokio::test]
async fn a_periodic_job_is_defined_in_the_place_of_its_name() {
    let places = in_one_database(&["a", "b", "c"]).await;
    let build = |client: Client| {
        let hourly = |name| PeriodicJob::every(name, HOUR, Task { n: 1 });
        quick(client).periodic(hourly("one")).periodic(hourly("two")).periodic(hourly("three"))
    };
    let handle = places.runner(build).start().await.unwrap();
    for name in ["one", "two", "three"] {
        let right = places.map().place_of(name).unwrap();
        for (place, client) in places.iter() {
            if place == right {
                eventually!(
                    let list = Admin::new(client).periodic().list().await.unwrap();
                    list.iter().any(|periodic| periodic.name.as_str() == name), "{name} is not in {place}"
                );
            }
        }
    }
    handle.stop().await.unwrap();
    let mut defined = 0;
    for (_, client) in places.iter() {
        defined += Admin::new(client).periodic().list().await.unwrap().len();
    }
    assert_eq!(defined, 3);
}

#[tokio::test]
async fn one_connection_listens_for_all_places_of_a_database() {
    let places = in_one_database(&["a", "b", "c"]).await;
    let rare = |client: Client| quick(client).poll_interval(HOUR);
    let handle = places.runner(rare).start().await.unwrap();
    let url = places.map().places().next().unwrap().url().to_owned();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let listening = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query ILIKE 'LISTEN%' AND state = 'idle'";
    eventually!(
        let sessions = sqlx::query_scalar::<_, i64>(listening).fetch_one(&mut connection).await.unwrap();
        sessions == 1, "{sessions} listen"
    );
    for (place, client) in places.iter() {
        // Once it sleeps, only a notification wakes it.
        eventually!(
            let idle = Admin::new(client).runners().await.unwrap().iter().filter(|runner| runner.is_idle).count();
            idle == 1, "{place}: {idle} sleep"
        );
        insert(client, 1).await;
    }
    until_worked(&places).await;
    handle.stop().await.unwrap();
}

#[tokio::test]
async fn with_many_processes_each_place_is_worked_by_two_and_a_death_is_made_up_for() {
    let places = in_one_database(&["a", "b", "c"]).await;
    let mut handles = Vec::new();
    for _ in 0..4 {
        // The first look of each sees those before it.
        let handle = places.runner(quick).most_runners(3).start().await.unwrap();
        eventually!(
            let working = handle.states().into_values().filter(|now| *now != PlaceState::Standby).count();
            working > 0 || handles.len() > 1, "{working}"
        );
        handles.push(handle);
    }
    for (place, client) in places.iter() {
        eventually!(
            let alive = Admin::new(client).runners().await.unwrap().iter().filter(|runner| runner.is_alive).count();
            alive == 2, "{place}: {alive} work"
        );
        insert(client, 5).await;
    }
    assert!(handles.iter().flat_map(PlacesHandle::states).any(|(_, now)| now == PlaceState::Standby));
    until_worked(&places).await;
    for handle in handles.drain(1..) {
        handle.stop().await.unwrap();
    }
    // The last process takes all places at its next look.
    let last = &handles[0];
    eventually!(
        let working = last.states().into_values().filter(|now| matches!(now, PlaceState::Working(_))).count();
        working == 3, "{working}"
    );
    handles.remove(0).stop().await.unwrap();
}

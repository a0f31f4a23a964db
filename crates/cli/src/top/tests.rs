//! The screen without a terminal: states drawn into a buffer, and the effect of keys.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::{Palette, draw};
use super::incident::{JOB, incident, list, queue, state_with_history};
use super::keys::Effect;
use super::lists::{self, HELD_UP, Pane};
use super::state::{Action, HISTORY, NOTICE, Overlay, Retry, Snapshot, State, Update};
use super::svg::svg;
use crate::output::{Cell, Style};

fn drawn(state: &State, now: Instant, has_colors: bool, width: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
    terminal.draw(|frame| draw(frame, state, now, Palette { has_colors })).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(state: &State, now: Instant) -> Vec<String> {
    lines_at(state, now, 120)
}

fn lines_at(state: &State, now: Instant, width: u16) -> Vec<String> {
    let buffer = drawn(state, now, false, width);
    let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..buffer.area.height).map(row).collect()
}

fn press(state: &mut State, keys: &str) -> Effect {
    let mut effect = Effect::Redraw;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        effect = state.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    effect
}

#[test]
fn screen_shows_queues_and_the_selected_list() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    let shown = lines(&state, now);
    let has = |shown: &[String], words: &[&str]| shown.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(shown[0].starts_with("uniqueue top  schema uniqueue  2 runners  09:14:07 UTC  every 1s"), "{shown:#?}");
    assert!(has(&shown, &["inserted 48.0/s", "completed 19.0/s", "failed 0.4/s"]), "{shown:#?}");
    assert!(has(&shown, &["billing", "limit 2", "41", "12m 20s", "▁▂▃▄▅▇█"]), "{shown:#?}");
    assert!(has(&shown, &["imports", "paused", "250"]), "{shown:#?}");
    assert!(has(&shown, &[JOB, "report.build", "4m 2s", "1/25", "worker-1", "40% of 200"]), "{shown:#?}");
    assert!(has(&shown, &["dead: worke…"]), "{shown:#?}");
    assert!(has(&shown, &["1 queues 3"]) && has(&shown, &["2 running 2", "5 waiting inserts 1"]), "{shown:#?}");
    press(&mut state, "3");
    assert!(has(&lines(&state, now), &["email.send", "8s ago", "smtp: connection refused"]));
    press(&mut state, "4");
    assert!(has(&lines(&state, now), &["invoice:2026-11", "12m 20s", JOB, "when it is completed"]));
    press(&mut state, "\t");
    assert!(has(&lines(&state, now), &["4711", "9m 58s", "4242 deploy, idle in transaction", "12m 22s"]));
    press(&mut state, "\t");
    assert!(has(&lines(&state, now), &["customer:1", "emails", "3/3", "17", "2m 5s", "group_limit", "in 4m 3s"]));
    assert!(has(&lines(&state, now), &["5 waiting inserts 1", "6 groups 1"]));
    let everything = lines(&state, now).join("");
    assert!(!everything.contains('\u{1b}'), "text of jobs must not reach the terminal as commands");
}

#[test]
fn a_terminal_of_80_columns_shows_names_the_whole_foot_and_the_whole_help() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    let at_80 = |state: &State| lines_at(state, now, 80);
    let has = |shown: &[String], words: &[&str]| shown.iter().any(|line| words.iter().all(|word| line.contains(word)));
    let shown = at_80(&state);
    for words in [&["billing", "limit 2", "41", "12m 20s"][..], &["imports", "paused", "250"], &["emails"]] {
        assert!(has(&shown, words), "{words:?}: {shown:#?}");
    }
    assert!(shown[23].starts_with("? help") && shown[23].ends_with("q quit"), "{shown:#?}");
    assert!(has(&shown, &["report.build", "4m 2s", "1/25", "worker-1"]), "{shown:#?}");
    press(&mut state, "3");
    assert!(has(&at_80(&state), &["email.send", "8s ago", "smtp: connection"]), "{:#?}", at_80(&state));
    press(&mut state, "4");
    assert!(has(&at_80(&state), &["invoice:2026-11", "invoice.send", "available", "12m 20s", "when it is"]));
    press(&mut state, "5");
    assert!(has(&at_80(&state), &["4711", "shop", "9m 58s", "a key", "4242 deploy, idle", "12m 22s"]));
    press(&mut state, "6");
    let shown = at_80(&state);
    for words in [&["group", "queue", "running", "waiting", "oldest", "held up by"][..], &["2 running 2", "6 groups 1"]]
    {
        assert!(has(&shown, words), "{words:?}: {shown:#?}");
    }
    assert!(has(&shown, &["customer:1", "emails", "3/3", "17", "2m 5s", "group_limit"]), "{shown:#?}");
    press(&mut state, "?");
    let help = at_80(&state);
    for words in ["1 to 6, tab, arrows ", "pause the selected queue, or resume it", "shows that job."] {
        assert!(has(&help, &[words]), "{words}: {help:#?}");
    }
    // No line of it is cut: the frame closes each.
    let inside: Vec<_> = help.iter().filter(|line| line.contains('│')).collect();
    assert!(inside.iter().filter(|line| line.matches('│').count() >= 2).count() >= 22, "{help:#?}");
    press(&mut state, "x");
    let long = "error communicating with database: ".repeat(4);
    state.notice = Some(format!("{long}the end"));
    assert!(at_80(&state)[23].ends_with("the end"), "{:#?}", at_80(&state));
}

#[test]
fn queues_with_groups_that_are_held_up_show_their_number() {
    let now = Instant::now();
    let mut snapshot = incident(41);
    let mut state = State::new("schema uniqueue".to_owned(), Duration::from_secs(1));
    state.apply(Update::Snapshot(Box::new(snapshot.clone())), now);
    assert!(!lines_at(&state, now, 80).join("").contains("held up"));
    let queues = &mut snapshot.lists[Pane::Queues as usize];
    queues.columns.insert(2, HELD_UP);
    queues.columns[0].least = 11;
    queues.rows.iter_mut().for_each(|row| row.cells.insert(2, Cell::new("")));
    queues.rows[1].cells[2] = Cell::new("200+").style(Style::Warn);
    state.apply(Update::Snapshot(Box::new(snapshot)), now);
    let shown = lines_at(&state, now, 80);
    let header = &shown.iter().find(|line| line.contains("held up")).unwrap();
    assert!(header.contains("queue") && header.contains("retryable") && header.contains("discarded"), "{shown:#?}");
    assert!(shown.iter().any(|line| line.contains("emails") && line.contains("200+")), "{shown:#?}");
}

#[test]
fn hostile_text_reaches_no_terminal_from_any_list_or_window() {
    const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{1b}[2J\r\n\u{9b}31m\u{202e}\u{2066}\u{200f}";
    let hostile = || HOSTILE.to_owned();
    let now = Instant::now();
    let mut snapshot = incident(3);
    for list in &mut snapshot.lists {
        list.rows[0].cells.iter_mut().for_each(|cell| *cell = Cell::new(HOSTILE));
    }
    snapshot.lists[0].rows[0].queue.as_mut().unwrap().name = hostile();
    snapshot.lists[2].rows[0].kind = Some(hostile());
    let mut state = State::new("schema uniqueue".to_owned(), Duration::from_secs(1));
    state.apply(Update::Snapshot(Box::new(snapshot)), now);
    let check = |state: &State| {
        for width in [80, 200] {
            let shown = lines_at(state, now, width).concat();
            let is_bad = |letter: char| letter.is_control() || "\u{202e}\u{2066}\u{200f}".contains(letter);
            assert!(!shown.contains(is_bad), "{shown:?}");
        }
    };
    for keys in ["1", "2", "3", "4", "5", "6", "1p", "n", "3r", "n", "/"] {
        press(&mut state, keys);
        check(&state);
    }
    press(&mut state, "\u{1b}");
    state.filter = hostile();
    check(&state);
    state.filter.clear();
    state.notice = Some(hostile());
    check(&state);
    state.retry = Some(Retry { kind: hostile(), retried: 1 });
    state.problem = Some(hostile());
    check(&state);
    state.overlay = Overlay::Text { title: "job".to_owned(), lines: vec![hostile()], scroll: 0 };
    check(&state);
    for overlay in
        [Overlay::Filter, Overlay::Confirm(Action::Retry(hostile())), Overlay::Confirm(Action::Pause(hostile()))]
    {
        state.overlay = overlay;
        check(&state);
    }
}

#[test]
fn small_and_empty_screens_are_drawn_as_well() {
    let now = Instant::now();
    for (width, height) in [(1, 1), (20, 5), (79, 10), (400, 100)] {
        for state in [state_with_history(now), State::new("schema x".to_owned(), Duration::from_secs(1))] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &state, now, Palette { has_colors: true })).unwrap();
        }
    }
}

#[test]
fn stale_numbers_and_problems_are_shown() {
    let began = Instant::now();
    let mut state = state_with_history(began);
    let later = began + Duration::from_secs(9);
    state.problem = Some("no answer within 10s".to_owned());
    let shown = lines(&state, later);
    assert!(shown[0].contains("9s old") && shown[1] == "no answer within 10s", "{shown:#?}");
    state.apply(Update::Snapshot(Box::new(incident(1))), later);
    let shown = lines(&state, later);
    assert!(!shown[0].contains(" old") && !shown[1].contains("no answer"), "{shown:#?}");
    state.apply(Update::Snapshot(Box::new(Snapshot { took: Duration::from_secs(3), ..incident(1) })), later);
    assert!(lines(&state, later)[0].contains("every 1s, a query takes 3s"));
}

#[test]
fn changes_ask_for_confirmation() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    assert_eq!(press(&mut state, "p"), Effect::Redraw);
    assert!(lines(&state, now).iter().any(|line| line.contains("Pause queue billing? Running jobs are finished.")));
    assert_eq!(press(&mut state, "n"), Effect::Redraw);
    assert_eq!(state.notice.as_deref(), Some("nothing was changed"));
    assert_eq!(press(&mut state, "py"), Effect::Run(Action::Pause("billing".to_owned())));
    assert_eq!(press(&mut state, "jjpy"), Effect::Run(Action::Resume("imports".to_owned())));
    assert_eq!(press(&mut state, "2cy"), Effect::Run(Action::Cancel(JOB.parse().unwrap())));
    assert_eq!(press(&mut state, "3ry"), Effect::Run(Action::Retry("email.send".to_owned())));
    assert_eq!(press(&mut state, "4\n"), Effect::Run(Action::Inspect(JOB.parse().unwrap())));
    assert_eq!(press(&mut state, "6\n"), Effect::Run(Action::Inspect(JOB.parse().unwrap())));
    assert_eq!(press(&mut state, "5c"), Effect::Redraw);
    assert!(state.notice.as_deref().unwrap().starts_with("cancel: select a running job"));
    assert_eq!(press(&mut state, "q"), Effect::Quit);
}

#[test]
fn only_one_retry_runs_and_its_progress_is_shown() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    assert_eq!(press(&mut state, "3ry"), Effect::Run(Action::Retry("email.send".to_owned())));
    state.apply(Update::RetryProgress(137_000), now);
    let foot = |state: &State| lines(state, now).pop().unwrap();
    assert_eq!(foot(&state), "retrying kind email.send: 137,000 so far");
    assert_eq!(press(&mut state, "ry"), Effect::Redraw);
    assert_eq!(foot(&state), "retrying kind email.send: 137,000 so far; retry: another retry is running");
    // Other actions run meanwhile.
    assert_eq!(press(&mut state, "1py"), Effect::Run(Action::Pause("billing".to_owned())));
}

#[test]
fn filter_applies_to_every_list_and_esc_clears_it() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    press(&mut state, "/EMAIL\n");
    assert_eq!(state.shown(Pane::Queues), [1]);
    assert_eq!(press(&mut state, "py"), Effect::Run(Action::Pause("emails".to_owned())));
    assert!(lines(&state, now).last().unwrap().starts_with("filter: EMAIL"));
    // In the filter, letters are text.
    press(&mut state, "/q");
    assert_eq!((state.filter.as_str(), &state.overlay), ("EMAILq", &Overlay::Filter));
    assert!(state.shown(Pane::Queues).is_empty());
    assert_eq!(press(&mut state, "\npy"), Effect::Redraw);
    press(&mut state, "\u{1b}");
    assert_eq!(state.shown(Pane::Queues), [0, 1, 2]);
}

#[test]
fn selection_stays_within_a_list_that_shrinks() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    press(&mut state, "jjjjjj");
    assert_eq!(state.selected(Pane::Queues), 2);
    let mut fewer = incident(1);
    fewer.lists[0].rows.truncate(1);
    state.apply(Update::Snapshot(Box::new(fewer)), now);
    assert_eq!(state.selected(Pane::Queues), 0);
    assert_eq!(press(&mut state, "py"), Effect::Run(Action::Pause("billing".to_owned())));
    state.apply(Update::Snapshot(Box::default()), now);
    assert_eq!(press(&mut state, "py"), Effect::Redraw);
    assert_eq!(state.notice.as_deref(), Some("the list is empty"));
}

#[test]
fn a_notice_ends_by_itself() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    press(&mut state, "5c");
    state.tick(now);
    state.tick(now + NOTICE / 2);
    assert!(state.notice.is_some());
    // Another notice has its own time.
    state.notice = Some("queue a is paused".to_owned());
    state.tick(now + NOTICE);
    assert!(state.notice.is_some());
    state.tick(now + NOTICE * 2);
    assert_eq!(state.notice, None);
}

#[test]
fn enter_lists_the_jobs_of_a_queue_and_queues_in_trouble_come_first() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    assert_eq!(press(&mut state, "1\n"), Effect::Run(Action::List("billing".to_owned())));
    let trouble = |status, depth, seconds| lists::trouble(status, depth, false, Some(Duration::from_secs(seconds)));
    let [billing, emails] = [trouble("waiting", 41, 740), trouble("no runner", 3, 1)];
    let imports = trouble("paused", 250, 4_000);
    assert!(emails < imports && imports < billing && trouble("waiting", 41, 741) < billing);
    // The selected queue stays selected where it moves.
    let mut moved = incident(41);
    moved.lists[0].rows.rotate_left(1);
    state.apply(Update::Snapshot(Box::new(moved)), now);
    assert_eq!(press(&mut state, "\n"), Effect::Run(Action::List("billing".to_owned())));
}

#[test]
fn what_is_cut_is_marked_and_the_queues_take_free_rows() {
    let now = Instant::now();
    let mut snapshot = incident(3);
    let long = |n| queue(&format!("a-queue-with-a-very-long-name-{n}"), Cell::new(""), 3, "1s", "0");
    snapshot.lists[0] = list(Pane::Queues, (0..30).map(long).collect::<Vec<_>>());
    snapshot.lists[1].rows.truncate(1);
    let mut state = State::new("schema uniqueue".to_owned(), Duration::from_secs(1));
    state.apply(Update::Snapshot(Box::new(snapshot)), now);
    let shown = lines_at(&state, now, 80);
    let named = shown.iter().filter(|line| line.contains("a-queue-")).count();
    assert!(named >= 11 && shown.iter().any(|line| line.contains("a-queue-with") && line.contains('…')), "{shown:#?}");
    assert!(shown.iter().any(|line| line.contains(&format!("… {} more", 30 - named))), "{shown:#?}");
}

#[test]
fn history_is_bounded() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    for depth in 0..500 {
        state.apply(Update::Snapshot(Box::new(incident(depth))), now);
    }
    assert_eq!((state.history.inserted.len(), state.history.depths["billing"].len()), (HISTORY, HISTORY));
    state.apply(Update::Snapshot(Box::default()), now);
    assert!(state.history.depths.is_empty(), "queues that are gone are dropped");
}

#[test]
fn help_and_jobs_in_full_cover_the_lists() {
    let now = Instant::now();
    let mut state = state_with_history(now);
    press(&mut state, "?");
    assert!(lines(&state, now).iter().any(|line| line.contains("pause the selected queue, or resume it")));
    press(&mut state, "x");
    assert_eq!(state.overlay, Overlay::None);
    let long = (0..50).map(|line| format!("line {line}")).collect();
    state.overlay = Overlay::Text { title: "job".to_owned(), lines: long, scroll: 0 };
    press(&mut state, "jj");
    let shown = lines(&state, now).join("\n");
    assert!(shown.contains("line 2 ") && !shown.contains("line 1 "), "{shown}");
    press(&mut state, "x");
    assert_eq!(state.overlay, Overlay::None);
}

/// `GOLDEN=overwrite cargo test -p uniqueue-cli -- picture` writes it.
#[test]
fn picture_in_the_guide_matches_the_screen() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/top.svg");
    let now = Instant::now();
    let mut state = state_with_history(now);
    press(&mut state, "5");
    let drawn = svg(&drawn(&state, now, true, 120));
    if std::env::var("GOLDEN").is_ok_and(|value| value == "overwrite") {
        std::fs::write(path, &drawn).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == drawn, "docs/reference/top.svg differs; hint: GOLDEN=overwrite, then look at it");
}

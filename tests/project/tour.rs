//! docs/learn/tour.md: the service is run, and each of its commands, whose outputs are those of the page.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use uniqueue::testing;

use crate::examples::{Example, command, post};
use support::WAIT;

/// Set to write the outputs anew: `GOLDEN=overwrite cargo test --test project tour`.
const OVERWRITE: &str = "GOLDEN";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/learn/tour.md");

/// A text without what is different each time: ids, numbers, units of time, and the widths of columns.
fn settled(text: &str) -> String {
    let text = without_ids(text).replace("under a second", "1s").replace(',', " ,").replace(';', " ;");
    let words = text.split_whitespace().filter(|word| !word.chars().all(|c| "|+-─│┼".contains(c)));
    let mut settled: Vec<String> = Vec::new();
    for word in words.map(numbers_as_n) {
        // "1 s" is "1s" as well.
        let is_unit = ["ms", "s", "m", "µs"].contains(&word.as_str());
        if !(is_unit && settled.last().is_some_and(|last| last == "N")) {
            settled.push(word);
        }
    }
    settled.join(" ")
}

/// Long runs of hexadecimal digits and hyphens are ids and keys.
fn without_ids(text: &str) -> String {
    let is_of_id = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
    let mut found = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_of_id(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let run = &rest[..end];
        found.push_str(if end >= 32 && run.contains(|c: char| c.is_ascii_digit()) { "ID" } else { run });
        rest = &rest[end..];
    }
    found
}

/// `380ms` and `1.2s` become `N`, `2026-11` becomes `N-N`.
fn numbers_as_n(word: &str) -> String {
    let mut found = String::new();
    for letter in word.chars() {
        match letter {
            '0'..='9' if found.ends_with('N') => {}
            '0'..='9' => found.push('N'),
            '.' if found.ends_with('N') => {}
            letter => found.push(letter),
        }
    }
    match found.as_str() {
        "Nms" | "Ns" | "Nm" | "Nµs" => "N".to_owned(),
        _ => found,
    }
}

/// Each command of the page, with the output below it.
fn shown(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n$ ").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .map(|block| block.split_once('\n').map(|(line, output)| (line.to_owned(), output.to_owned())).unwrap())
        .collect()
}

struct Tour {
    address: String,
    url: String,
}

impl Tour {
    fn output_of(&self, line: &str) -> String {
        if let Some(request) = line.strip_prefix("curl --json '") {
            let (body, path) = request.split_once("' localhost:3000").unwrap();
            let (_, answer) = post(&self.address, path, &serde_json::from_str::<Value>(body).unwrap());
            return format!("{answer}\n");
        }
        let line = line.replacen("uniqueue ", &format!("{} ", command().display()), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("DATABASE_URL", &self.url).env("COLUMNS", "80");
        let ran = shell.output().unwrap();
        // A duplicate, in `explain`, is 1.
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{line}: {ran:?}");
        // The page's database is not one of a test.
        let name = self.url.split_once('?').map_or(&*self.url, |(before, _)| before).rsplit('/').next().unwrap();
        String::from_utf8(ran.stdout).unwrap().replace(name, "postgres")
    }

    /// The output of a command; of one that only looks, once it is the expected one.
    fn output_like(&self, line: &str, expected: &str) -> String {
        let looks = [" list", " holders", " explain", "doctor"].iter().any(|word| line.contains(word));
        let began = Instant::now();
        loop {
            let printed = self.output_of(line);
            if !looks || settled(&printed) == settled(expected) || began.elapsed() > WAIT {
                return printed;
            }
            // What a job does takes a moment, and another process does it.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_tour_print_what_the_page_shows() {
    let database = testing::Database::new().await.unwrap();
    let service = Example::start("axum_service", &database);
    let address = service.line_with("listening on http://").replace("listening on http://", "");
    let tour = Tour { address, url: database.url().to_owned() };
    let mut page = std::fs::read_to_string(PAGE).unwrap();
    let overwrites = std::env::var(OVERWRITE).is_ok_and(|value| value == "overwrite");
    let mut shown_id = None;
    for (place, (line, output)) in shown(&page).into_iter().enumerate() {
        let printed = if overwrites {
            std::thread::sleep(Duration::from_secs(2));
            tour.output_of(&line)
        } else {
            tour.output_like(&line, &output)
        };
        if line.starts_with("curl") {
            let answer: Value = serde_json::from_str(&printed).unwrap();
            let first = shown_id.get_or_insert_with(|| answer["job"].clone());
            assert_eq!((&answer["job"], answer["duplicate"].as_bool()), (&*first, Some(place > 0)));
        }
        if overwrites {
            let mut start = 0;
            for _ in 0..=place {
                start = page[start..].find("```console\n$ ").unwrap() + start + 1;
            }
            let start = start + page[start..].find('\n').unwrap() + 1;
            let start = start + page[start..].find('\n').unwrap() + 1;
            page.replace_range(start..start + page[start..].find("```").unwrap(), &printed);
        } else {
            assert_eq!(
                settled(&output),
                settled(&printed),
                "$ {line}\n{printed}\nhint: GOLDEN=overwrite, then read it"
            );
        }
    }
    assert_eq!(service.line(), "to ada@example.com in en: welcome");
    service.terminate();
    assert_eq!(service.end(), ["to bob@example.com in de: welcome", "stopped"]);
    if overwrites {
        std::fs::write(PAGE, page).unwrap();
    }
}

//! Damaged inputs for parsers: fuzzing without a special compiler.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::dice::Dice;

/// The most bytes of an input.
const LONGEST: usize = 20_000;

/// Texts at which parsers stumble.
const TOKENS: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "null",
    "true",
    "{}",
    "[]",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\u{2028}",
    "\u{1f600}",
    "-0",
    "1e309",
    "-1e-400",
    "0.1e",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "PT",
    "+P1DT1S",
    "2026-02-29T24:00:60Z",
    "\r\n",
];

/// Feeds a parser with damaged forms of the files of a directory for `UNIQUEUE_FUZZ_SECONDS` seconds. Default: 1. A panic prints
/// the input.
pub fn feed(seeds: &Path, mut parse: impl FnMut(&[u8])) {
    let files = fs::read_dir(seeds).expect("the directory of seeds").map(|entry| entry.expect("a seed").path());
    let corpus: Vec<_> = files.map(|path| fs::read(path).expect("a seed")).collect();
    corpus.iter().for_each(|seed| parse(seed));
    let seconds = std::env::var("UNIQUEUE_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let (began, length) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(1)));
    let first = u64::from(std::process::id()) << 32;
    for number in 0.. {
        let input = damaged(&corpus, &mut Dice::new(first, number));
        let parsing = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| parse(&input)));
        assert!(parsing.is_ok(), "it panicked on {}", input.escape_ascii());
        if number % 64 == 0 && began.elapsed() >= length {
            println!("{number} inputs");
            return;
        }
    }
}

/// One of the inputs with up to eight changes.
fn damaged(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut below = |limit: usize| usize::try_from(dice.below(limit as u64)).unwrap_or(0);
    let mut input = corpus[below(corpus.len())].clone();
    for _ in 0..=below(8) {
        let (from, to) = (below(input.len() + 1), below(input.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match below(7) {
            0 if from < input.len() => input[from] = u8::try_from(below(256)).unwrap_or(0),
            1 if from < input.len() => input[from] ^= 1 << below(8),
            2 => drop(input.drain(from..to.min(from + below(40)))),
            3 => {
                let copy = input[from..to].to_vec();
                input.splice(from..from, copy);
            }
            4 => {
                let other = &corpus[below(corpus.len())];
                let (start, end) = (below(other.len() + 1), below(other.len() + 1));
                input.splice(from..to, other[start.min(end)..start.max(end)].iter().copied());
            }
            5 => {
                let times = if below(10) == 0 { below(300) } else { 1 };
                input.splice(from..from, TOKENS[below(TOKENS.len())].repeat(times).into_bytes());
            }
            _ => {
                input.splice(from..to, TOKENS[below(TOKENS.len())].bytes());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

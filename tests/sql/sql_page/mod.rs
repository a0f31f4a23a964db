//! docs/reference/sql.md: every block of it is run.

mod languages;
mod questions;

const PAGE: &str = include_str!("../../../docs/reference/sql.md");

/// A block of the page: the heading that it stands under, its language, its text.
#[derive(Debug)]
struct Block {
    heading: &'static str,
    language: &'static str,
    text: String,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut inside) = ("", false);
    for line in PAGE.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                blocks.push(Block { heading, language, text: String::new() });
            }
        } else if inside {
            let text = &mut blocks.last_mut().expect("a block is open").text;
            text.push_str(line);
            text.push('\n');
        } else if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        }
    }
    blocks
}

#[test]
fn every_block_belongs_to_a_test() {
    for block in blocks() {
        let is_question = block.heading.starts_with(|first: char| first.is_ascii_digit());
        let is_known =
            is_question || ["Inserting", "Many jobs", "Waiting for a result", "psql"].contains(&block.heading);
        assert!(block.language == "sql" && is_known, "{block:?}");
    }
}

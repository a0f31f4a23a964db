//! The SQL of the library as words and signs, for tests of how it is written.

use std::fs;
use std::path::Path;

/// A statement file, or an object of the schema with everything up to the next one.
pub struct Part {
    pub place: String,
    pub is_statement: bool,
    pub tokens: Vec<String>,
}

impl Part {
    /// What is created: the last word in capitals before the name.
    pub fn kind(&self) -> &str {
        self.tokens.iter().take_while(|token| is_keyword(token)).last().map_or("", String::as_str)
    }
}

/// Every statement file, and every object of the migrations.
pub fn parts() -> Vec<Part> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut parts = Vec::new();
    for (directory, is_statement) in [("src/store/sql", true), ("migrations", false)] {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let tokens = tokens(&fs::read_to_string(&path).unwrap());
            if is_statement {
                parts.push(Part { place: path.file_name().unwrap().to_str().unwrap().into(), is_statement, tokens });
                continue;
            }
            let starts = (0..tokens.len()).filter(|i| tokens[*i] == "CREATE");
            let ends = starts.clone().skip(1).chain([tokens.len()]);
            for (start, end) in starts.zip(ends) {
                let tokens = tokens[start..end].to_vec();
                let place = tokens.iter().find(|token| !is_keyword(token)).unwrap().clone();
                parts.push(Part { place, is_statement, tokens });
            }
        }
    }
    parts
}

fn is_keyword(token: &str) -> bool {
    token.chars().all(|c| c.is_ascii_uppercase())
}

/// The words and signs of SQL, without comments. A literal is one token, without its text. A body between dollars is
/// code.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = match first {
            _ if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").expect("the end of the comment") + 2,
            '\'' => rest[1..].find('\'').expect("the end of the literal") + 2,
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        match first {
            '\'' => tokens.push("''".into()),
            _ if first.is_whitespace() || token.starts_with("--") || token.starts_with("/*") => {}
            _ => tokens.push(token.into()),
        }
        rest = after;
    }
    tokens
}

/// The commands. In PL/pgSQL a PERFORM begins one, whatever stands before it.
pub fn commands(tokens: &[String]) -> Vec<&[String]> {
    tokens.split(|token| token == ";" || token == "PERFORM").collect()
}

/// The functions that are called. The name in a definition or a COMMENT is not a call.
pub fn calls(tokens: &[String]) -> impl Iterator<Item = &str> {
    let pairs = tokens.windows(2).enumerate();
    pairs
        .filter(|(i, pair)| pair[1] == "(" && (*i == 0 || tokens[i - 1] != "FUNCTION"))
        .map(|(_, pair)| pair[0].as_str())
}

/// What stands after each SET of an UPDATE, up to the next clause.
pub fn set_clauses(tokens: &[String]) -> Vec<&[String]> {
    let is_set =
        |i: &usize| tokens[*i] == "SET" && tokens[i.saturating_sub(4)..*i].iter().any(|token| token == "UPDATE");
    let length = |clause: &[String]| {
        let mut depth = 0;
        clause.iter().position(|token| {
            match token.as_str() {
                "(" | "CASE" => depth += 1,
                ")" | "END" => depth -= 1,
                _ => {}
            }
            depth < 0 || (depth == 0 && ["FROM", "WHERE", "RETURNING", ";"].contains(&token.as_str()))
        })
    };
    (0..tokens.len())
        .filter(is_set)
        .map(|i| &tokens[i + 1..])
        .map(|clause| &clause[..length(clause).unwrap_or(clause.len())])
        .collect()
}

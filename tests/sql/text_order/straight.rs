//! A body of PL/pgSQL without its branches and loops, so that one call analyses each of its statements and conditions.

/// The body of a function that runs every statement and condition of this one once, whatever the others did. It ends with
/// an error that lists the statements which PostgreSQL could not analyse.
///
/// Of a trigger, `OLD` and `NEW` are rows of this table.
pub fn straighten(body: &str, table: &str) -> String {
    let mut reader = Reader { body, tokens: tokens(body), at: 0 };
    let mut straight = Straight::default();
    while reader.at < reader.tokens.len() {
        statement(&mut reader, &mut straight);
    }
    let mut text = straight.options;
    text.push_str("DECLARE\nnot_analysed text := '';\nany_row record;\nsqlstate text;\nsqlerrm text;\n");
    text.push_str(&format!("old {table};\nnew {table};\n"));
    text.push_str(&straight.declarations);
    text.push_str("BEGIN\n");
    for part in straight.parts {
        text.push_str(&format!(
            "BEGIN\n{part};\nEXCEPTION\nWHEN lock_not_available OR insufficient_privilege THEN\nNULL;\nWHEN syntax_error_or_access_rule_violation OR object_not_in_prerequisite_state THEN\n\
             not_analysed := not_analysed || SQLERRM || '; ';\nWHEN OTHERS THEN\nNULL;\nEND;\n"
        ));
    }
    text.push_str("RAISE EXCEPTION 'not analysed: %', not_analysed;\nEND\n");
    text
}

#[derive(Default)]
struct Straight {
    options: String,
    declarations: String,
    parts: Vec<String>,
    open_cases: usize,
}

struct Reader<'a> {
    body: &'a str,
    /// Each with the place where it begins.
    tokens: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The text up to one of these words, or to a semicolon, outside of brackets and of CASE; goes on behind it.
    fn until(&mut self, ends: &[&str]) -> &'a str {
        let from = self.tokens[self.at].0;
        let mut depth = 0;
        while let Some((place, token)) = self.tokens.get(self.at).copied() {
            self.at += 1;
            if depth == 0 && (token == ";" || ends.contains(&token)) {
                return self.body[from..place].trim_end();
            }
            match token {
                "(" | "[" | "CASE" => depth += 1,
                ")" | "]" | "END" => depth -= 1,
                _ => {}
            }
        }
        // The last END of a body has no semicolon.
        ""
    }
}

fn statement(reader: &mut Reader<'_>, straight: &mut Straight) {
    let first = reader.tokens[reader.at].1;
    reader.at += 1;
    match first {
        _ if first.starts_with('#') => straight.options.push_str(&format!("{first}\n")),
        "DECLARE" => {
            while reader.tokens[reader.at].1 != "BEGIN" {
                // What a variable begins with may fail, and may have effects.
                let (variable, value) = split(reader.until(&[]), ":=");
                straight.declarations.push_str(&format!("{};\n", variable.replace(" CONSTANT", "")));
                if let Some(value) = value {
                    let name = variable.split_whitespace().next().expect("a name");
                    straight.parts.push(format!("{name} := {value}"));
                }
            }
        }
        "BEGIN" | "ELSE" | "LOOP" | "EXCEPTION" | ";" => {}
        "END" if reader.at == reader.tokens.len() => {}
        "END" if reader.until(&[]).starts_with("CASE") => straight.open_cases -= 1,
        "END" => {}
        "CASE" => {
            straight.open_cases += 1;
            if reader.tokens[reader.at].1 != "WHEN" {
                let operand = reader.until(&["WHEN"]);
                straight.parts.push(format!("PERFORM ({operand})"));
                reader.at -= 1;
            }
        }
        "WHEN" => {
            let condition = reader.until(&["THEN"]);
            // Outside of a CASE it is the condition of a handler.
            if straight.open_cases > 0 {
                straight.parts.push(format!("PERFORM ({condition})"));
            }
        }
        "IF" | "ELSIF" => {
            let condition = reader.until(&["THEN"]);
            straight.parts.push(format!("PERFORM ({condition})"));
        }
        "WHILE" => {
            let condition = reader.until(&["LOOP"]);
            straight.parts.push(format!("PERFORM ({condition})"));
        }
        "FOR" | "FOREACH" => {
            let head = reader.until(&["LOOP"]);
            match head.split_once("..") {
                Some((from, to)) if first == "FOR" => {
                    let (variable, from) = from.split_once(" IN ").expect("FOR variable IN");
                    straight.declarations.push_str(&format!("{variable} integer;\n"));
                    straight.parts.push(format!("{variable} := {from}"));
                    straight.parts.push(format!("PERFORM ({to})"));
                }
                _ => straight.parts.push(format!("{first} {head} LOOP EXIT; END LOOP")),
            }
        }
        "EXIT" | "CONTINUE" => {
            if let (_, Some(condition)) = split(reader.until(&[]), "WHEN") {
                straight.parts.push(format!("PERFORM ({condition})"));
            }
        }
        "RETURN" => {
            let answer = reader.until(&[]);
            if let Some(query) = answer.strip_prefix("QUERY") {
                straight.parts.push(format!("FOR any_row IN {query} LOOP EXIT; END LOOP"));
            } else if !answer.is_empty() && !answer.starts_with("NEXT") {
                straight.parts.push(format!("PERFORM ({answer})"));
            }
        }
        _ => {
            reader.at -= 1;
            let text = reader.until(&[]);
            straight.parts.push(match split(text, ":=") {
                // A record gets its columns from the function, which is not run.
                (name, Some(call)) if straight.declarations.contains(&format!("{} record;", name.trim())) => {
                    format!("SELECT * INTO {name} FROM {call}\nLIMIT 0")
                }
                _ => without_rows(text),
            });
        }
    }
}

fn split<'a>(text: &'a str, by: &str) -> (&'a str, Option<&'a str>) {
    text.split_once(by).map_or((text, None), |(left, right)| (left, Some(right)))
}

/// A query of one row without running it, where that can be said simply: the record it fills gets its columns, and the
/// functions that it calls cannot fail.
fn without_rows(statement: &str) -> String {
    let is_query = statement.starts_with("SELECT") && statement.contains("INTO");
    let is_simple = !statement.contains("LIMIT") && !statement.contains("UPDATE");
    if is_query && is_simple { format!("{statement}\nLIMIT 0") } else { statement.to_owned() }
}

/// Words, literals and single signs, without comments. A line of `#` is one token.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let literal = |from: &str| {
            let mut end = 1;
            loop {
                end += from[end..].find('\'').expect("the end of a literal") + 1;
                if !from[end..].starts_with('\'') {
                    return end;
                }
                end += 1;
            }
        };
        let length = match first {
            _ if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '#' if rest.starts_with("#variable_conflict") => rest.find('\n').unwrap_or(rest.len()),
            '\'' => literal(rest),
            'E' if rest.starts_with("E'") => literal(&rest[1..]) + 1,
            '"' => rest[1..].find('"').expect("the end of a name") + 2,
            // Not the two points between the ends of a range.
            _ if is_word(first) && first != '.' => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                rest[..end].find("..").unwrap_or(end)
            }
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() && !token.starts_with("--") {
            tokens.push((text.len() - rest.len(), token));
        }
        rest = after;
    }
    tokens
}

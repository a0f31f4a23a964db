//! JSON in indented lines. Numbers keep every digit, so this works on the text.

use maud::{Markup, html};

use super::Hostile;

/// JSON text in a block.
pub(crate) fn json(text: &str) -> Markup {
    html! { pre data-copy { code { (Hostile(&pretty(text))) } } }
}

/// Indents JSON text, and changes nothing else.
fn pretty(json: &str) -> String {
    let (mut pretty, mut depth, mut is_text, mut is_escaped) = (String::new(), 0_usize, false, false);
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.push_str(&"  ".repeat(depth));
    };
    let mut characters = json.trim().chars().peekable();
    while let Some(character) = characters.next() {
        if is_text {
            pretty.push(character);
            is_text = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                pretty.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => pretty.push(end),
                    None => {
                        depth += 1;
                        line(&mut pretty, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(character);
            }
            ',' => {
                pretty.push(character);
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => {
                is_text = other == '"';
                pretty.push(other);
            }
        }
    }
    pretty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        let json = r#"{"a": 12345678901234567890.10, "b{": ["x\"]", {}, [ ]]}"#;
        let expected = "{\n  \"a\": 12345678901234567890.10,\n  \"b{\": [\n    \"x\\\"]\",\n    {},\n    []\n  ]\n}";
        assert_eq!(pretty(json), expected);
    }
}

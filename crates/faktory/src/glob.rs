//! The patterns of `MUTATE`, with the syntax of Redis: `*`, `?`, `[a-z]`, `[^a]` and `\`.

/// Whether a text matches a pattern as a whole. It takes at most the product of both lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Behind the last star, and the place in the text from which it goes on.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, place));
            at += 1;
            continue;
        }
        match one(&pattern[at..], text[place]) {
            Some(length) => {
                at += length;
                place += 1;
            }
            None => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, place) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// How many characters of the pattern match one character of the text. `None`: the first ones do not.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        [] => None,
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == c).then_some(2),
        ['[', rest @ ..] => {
            let (length, is_in) = class(rest, c);
            is_in.then_some(length + 1)
        }
        [literal, ..] => (*literal == c).then_some(1),
    }
}

/// The length of a class with its closing bracket, and whether the character is in it. A class that is not closed ends with
/// the pattern.
fn class(pattern: &[char], c: char) -> (usize, bool) {
    let (negated, mut at) = match pattern {
        ['^', ..] => (true, 1),
        _ => (false, 0),
    };
    let mut is_in = false;
    loop {
        match pattern[at..] {
            [] => return (at, is_in != negated),
            [']', ..] => return (at + 1, is_in != negated),
            ['\\', escaped, ..] => {
                is_in |= escaped == c;
                at += 2;
            }
            [first, '-', last, ..] if last != ']' => {
                is_in |= (first.min(last)..=first.max(last)).contains(&c);
                at += 3;
            }
            [literal, ..] => {
                is_in |= literal == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_those_of_redis() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("*\"uid\":12345*", "{\"args\":[{\"uid\":12345}]}", true),
            ("*\\[\"fizz\"\\]*", "{\"args\":[\"fizz\"]}", true),
            ("a*b*c", "a--b--c--c", true),
            ("a*b*c", "a--b--", false),
            ("[a", "a", true),
            ("\\", "\\", true),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches(&"a*".repeat(200), &"a".repeat(5_000).replace("aaaaa", "b")));
    }

    proptest! {
        #[test]
        fn any_pattern_meets_any_text(pattern in "\\PC*", text in "\\PC*") {
            matches(&pattern, &text);
            let within = format!("*{}*", text.replace(['*', '?', '[', '\\'], "?"));
            prop_assert!(matches(&within, &text));
        }
    }
}

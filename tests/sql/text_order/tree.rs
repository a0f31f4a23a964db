//! PostgreSQL's text form of parse trees (`pg_node_tree`, `debug_print_parse`).

use std::collections::HashMap;

/// A node, a list, or a word of it.
#[derive(Debug)]
pub enum Tree {
    Node(String, HashMap<String, Self>),
    List(Vec<Self>),
    Word(String),
}

impl Tree {
    pub fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let mut at = 0;
        value(&tokens, &mut at)
    }

    pub fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Node(_, fields) => fields.get(name),
            _ => None,
        }
    }

    pub fn word(&self, name: &str) -> &str {
        match self.field(name) {
            Some(Self::Word(word)) => word,
            _ => "",
        }
    }

    /// The items of a field that is a list; none where it is empty, which PostgreSQL writes `<>`.
    pub fn items(&self, name: &str) -> &[Self] {
        match self.field(name) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// Calls a function for every node, the outer ones first.
    pub fn each(&self, visit: &mut impl FnMut(&str, &Self)) {
        match self {
            Self::Node(name, fields) => {
                visit(name, self);
                fields.values().for_each(|field| field.each(visit));
            }
            Self::List(items) => items.iter().for_each(|item| item.each(visit)),
            Self::Word(_) => {}
        }
    }
}

fn value(tokens: &[&str], at: &mut usize) -> Tree {
    let token = tokens[*at];
    *at += 1;
    match token {
        "(" => {
            let mut items = Vec::new();
            while tokens[*at] != ")" {
                items.push(value(tokens, at));
            }
            *at += 1;
            Tree::List(items)
        }
        "{" => {
            let name = tokens[*at].to_owned();
            *at += 1;
            let mut fields = HashMap::new();
            while tokens[*at] != "}" {
                // A node of the raw parser can have a word before its first field: `{A_CONST NULL :location 7}`.
                let field = tokens[*at].strip_prefix(':').unwrap_or_default().to_owned();
                *at += usize::from(!field.is_empty());
                let mut values = Vec::new();
                while tokens[*at] != "}" && !tokens[*at].starts_with(':') {
                    values.push(value(tokens, at));
                }
                let value = if values.len() == 1 { values.remove(0) } else { Tree::List(values) };
                fields.insert(field, value);
            }
            *at += 1;
            Tree::Node(name, fields)
        }
        word => Tree::Word(word.to_owned()),
    }
}

/// Brackets, words and quoted texts. The bytes of a constant, in square brackets, are one token.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '{' | '}' | '(' | ')' => 1,
            '[' => rest.find(']').expect("the end of the bytes") + 1,
            _ => end_of_word(rest),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Where a word or a quoted text ends. PostgreSQL writes a backslash before each space and bracket inside of either, but none
/// before a quote inside of a quoted text. From 16 on the trees have the bodies of `CREATE FUNCTION`, which hold such quotes.
fn end_of_word(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c.is_whitespace() || "{}()".contains(c) {
            return at;
        }
    }
    text.len()
}

#[test]
fn a_word_may_stand_before_the_first_field() {
    let tree = Tree::read("{A_CONST NULL :location 7}");
    assert_eq!((tree.word(""), tree.word("location")), ("NULL", "7"));
}

#[test]
fn a_quoted_text_ends_at_the_quote_before_a_space_or_a_bracket() {
    let text = r#"{DEFELEM :arg ("a\ "b"\ \(c\)" "" "\)") :defaction 0}"#;
    let tree = Tree::read(text);
    let words: Vec<_> =
        tree.items("arg").iter().map(|item| if let Tree::Word(word) = item { word } else { "" }).collect();
    assert_eq!(words, [r#""a\ "b"\ \(c\)""#, r#""""#, r#""\)""#]);
    assert_eq!(tree.word("defaction"), "0");
}

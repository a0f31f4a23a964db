//! Random JSON text: numbers of every form, strings of every kind, odd names.

use std::fmt::Write;

use support::prelude::*;

/// Characters on which NFC, escaping or order have something to say. None is younger than
/// PostgreSQL 14's Unicode 13: what NFC makes of unassigned characters differs by version.
const RANGES: &[(u32, u32)] = &[
    (0x20, 0x7e),
    (0x61, 0x66),
    (0x01, 0x1f),
    (0x22, 0x22),
    (0x5c, 0x5c),
    (0x7f, 0x17f),
    (0x300, 0x345),
    (0x41, 0x45),
    (0x370, 0x3ff),
    (0x5d0, 0x5ea),
    (0x915, 0x93c),
    (0x1100, 0x1112),
    (0x1161, 0x11c2),
    (0x1e00, 0x1fff),
    (0x2028, 0x2029),
    (0x212a, 0x212b),
    (0x3046, 0x309a),
    (0xac00, 0xac40),
    (0xd7a0, 0xd7a3),
    (0xe000, 0xe004),
    (0xf900, 0xfa0d),
    (0xfb1d, 0xfb36),
    (0xff5e, 0xffff),
    (0x1_1099, 0x1_1099),
    (0x1_10ba, 0x1_10ba),
    (0x1_d15e, 0x1_d165),
    (0x1_f600, 0x1_f604),
    (0x2_f800, 0x2_f820),
    (0x10_fffe, 0x10_ffff),
];

const NAMES: &[&str] = &[
    "a",
    "b",
    "user_id",
    "a.b",
    "a*",
    "a/b",
    "~",
    "",
    "0",
    "1",
    "id",
    "é",
    "e\u{301}",
    "\u{ff5e}",
    "😀",
    "\u{10ffff}",
    "z",
];

pub fn string(dice: &mut Dice) -> String {
    let length = dice.index(7);
    let mut text = String::new();
    while text.chars().count() < length {
        let (first, last) = dice.of(RANGES);
        text.extend(char::from_u32(first + dice.index((last - first + 1) as usize) as u32));
    }
    text
}

pub fn name(dice: &mut Dice) -> String {
    if dice.once_in(3) { string(dice) } else { dice.of(NAMES).to_owned() }
}

/// The text of a number that a key can hold, in any of the forms that JSON has.
pub fn number(dice: &mut Dice) -> String {
    loop {
        let text = any_number(dice);
        if uniqueue::json::parse_json(&text).is_ok() {
            return text;
        }
    }
}

/// The text of a number, also of one that no key can hold.
pub fn any_number(dice: &mut Dice) -> String {
    let sign = dice.of(&["", "", "-"]);
    let bits = dice.number();
    let integer = bits >> dice.index(64);
    match dice.index(12) {
        0 | 1 => format!("{sign}{}", dice.index(1000)),
        2 => format!("{sign}{integer}"),
        3 => {
            let edge = dice.of(&[1_u128 << 53, 1 << 63, 1 << 64, 1 << 70, 10_u128.pow(21), 10_u128.pow(15)]);
            format!("{sign}{}", edge + dice.index(9) as u128 - 4)
        }
        4 => format!("{}", f64::from_bits(bits)).replace("NaN", "0").replace("inf", "1"),
        5 => format!("{:e}", f64::from_bits(bits)).replace("NaN", "0").replace("inf", "1"),
        // Between two doubles or beside one: more digits than either needs.
        6 => format!("{sign}{}.{}e{}", dice.index(10), bits, dice.index(620) as i32 - 310),
        7 => {
            format!("{sign}{}.{}", dice.index(100_000), dice.of(&["0", "00", "5", "50", "25", "1", "3333333333"]))
        }
        8 => {
            let exponent = dice.index(25);
            let mark = dice.of(&["e", "E", "e+", "E+", "e0", "e-", "e-0"]);
            format!("{sign}{integer}{mark}{exponent}")
        }
        9 => format!("{sign}{}.{integer}e{}", dice.index(10), dice.index(24)),
        10 => {
            // Powers of two and their neighbours, where the distance to the next changes.
            let power = f64::powi(2.0, dice.index(2098) as i32 - 1074).to_bits();
            format!("{sign}{:e}", f64::from_bits(power + dice.index(3) as u64 - u64::from(power > 0)))
        }
        _ => dice
            .of(&["0", "-0", "-0.0", "0e7", "0.0e-9", "1e-400", "-1e-400", "5e-324", "1.7976931348623157e308"])
            .to_owned(),
    }
}

/// JSON text, no deeper than `levels`.
pub fn json(dice: &mut Dice, levels: usize) -> String {
    let mut text = String::new();
    write_json(dice, levels, &mut text);
    text
}

/// An object's JSON text.
pub fn object(dice: &mut Dice, levels: usize) -> String {
    let mut text = String::new();
    write_object(dice, levels, &mut text);
    text
}

fn write_json(dice: &mut Dice, levels: usize, text: &mut String) {
    match dice.index(if levels == 0 { 6 } else { 10 }) {
        0 => text.push_str("null"),
        1 => text.push_str(dice.of(&["true", "false"])),
        2 | 3 => text.push_str(&number(dice)),
        4 | 5 => {
            let string = string(dice);
            write_string(dice, &string, text);
        }
        6 | 7 => {
            text.push('[');
            for item in 0..dice.index(4) {
                text.push_str(if item > 0 { " ," } else { "" });
                write_json(dice, levels - 1, text);
            }
            text.push(']');
        }
        _ => write_object(dice, levels, text),
    }
}

fn write_object(dice: &mut Dice, levels: usize, text: &mut String) {
    let mut names = Vec::new();
    for _ in 0..dice.index(5) {
        let name = name(dice);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    text.push_str("{ ");
    for (place, name) in names.iter().enumerate() {
        text.push_str(if place > 0 { "," } else { "" });
        write_string(dice, name, text);
        text.push_str(": ");
        write_json(dice, levels.saturating_sub(1), text);
    }
    text.push('}');
}

/// As `serde_json` escapes, or with needless escapes.
fn write_string(dice: &mut Dice, string: &str, text: &mut String) {
    if dice.once_in(4) {
        text.push('"');
        for unit in string.encode_utf16() {
            write!(text, "\\u{unit:04X}").expect("a string takes all");
        }
        text.push('"');
    } else {
        text.push_str(&serde_json::json!(string).to_string());
    }
}

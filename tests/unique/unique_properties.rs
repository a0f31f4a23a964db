//! Properties of keys that hold for every value.

#![allow(clippy::unwrap_used)]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Map;
use unicode_normalization::UnicodeNormalization;

use support::prelude::*;

/// Strings of plain, composed, decomposed, odd and astral characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-e]{0,3}",
        "[ -~]{0,6}",
        "[\u{0}-\u{24f}\u{300}-\u{327}\u{1100}\u{1161}\u{ac00}\u{212b}\u{e000}-\u{e010}\u{fb33}\u{ff5e}\u{1f600}]{0,5}",
        any::<String>(),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-100..100_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|double| json!(double)),
        (-1000..1000_i32).prop_map(|double| json!(f64::from(double) / 8.0)),
        any::<f64>().prop_map(|double| json!(double.trunc())),
    ]
}

fn value_of(
    number: impl Strategy<Value = Value> + 'static,
    text: impl Strategy<Value = String> + 'static,
) -> impl Strategy<Value = Value> {
    let text = text.boxed();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(text.clone(), inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    value_of(number(), text())
}

/// Values on which RFC 8785 and uniqueue agree: NFC, no integer beyond 2^53.
fn plain_value() -> impl Strategy<Value = Value> {
    let number = number().prop_map(|number| match number.as_f64() {
        Some(double) if number.is_f64() && double.abs() < 9e15 => number,
        Some(double) if double.abs() < 9e15 => number,
        Some(double) if double.fract() == 0.0 => json!(double * 1e6),
        _ => number,
    });
    value_of(number, text().prop_map(|text| text.nfc().collect()))
}

/// JSON text of a value with members in reverse order and white space between tokens.
fn shuffled(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shuffled).collect();
            format!("[ {}\n]", items.join(" ,\t"))
        }
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(name, member)| format!("{} : {}", json!(name), shuffled(member))).collect();
            format!("{{ {} }}", members.join(",\r\n"))
        }
        other => other.to_string(),
    }
}

/// The value with every string and name changed.
fn map_text(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => change(text).into(),
        Value::Array(items) => items.iter().map(|item| map_text(item, change)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (change(name), map_text(member, change))).collect()
        }
        other => other.clone(),
    }
}

fn key(value: &Value) -> Option<String> {
    UniqueKey::hash_of(value).text().ok().map(str::to_owned)
}

#[derive(Debug, Serialize)]
struct Args<'a> {
    zeta: f32,
    ratio: f64,
    large: u64,
    small: i64,
    wide: u128,
    name: &'a str,
    missing: Option<bool>,
    pair: (u8, char),
    nested: Vec<Map<String, Value>>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(support::soak(250, 1_000)))]

    #[test]
    fn canonical_text_is_rfc_8785_where_the_two_agree(value in plain_value()) {
        let canonical = canonical_json(&value).unwrap();
        prop_assert_eq!(&canonical, &serde_json_canonicalizer::to_string(&value).unwrap());
        prop_assert_eq!(&canonical, &serde_jcs::to_string(&value).unwrap());
    }

    #[test]
    fn key_ignores_member_order_and_white_space(value in value()) {
        let text = shuffled(&value);
        prop_assert_eq!(key(&parse_json(&text).unwrap()), key(&value));
        prop_assert_eq!(key(&serde_json::from_str(&text).unwrap()), key(&value));
    }

    #[test]
    fn composed_and_decomposed_text_give_one_key(value in value()) {
        let composed = map_text(&value, &|text| text.nfc().collect());
        let decomposed = map_text(&value, &|text| text.nfd().collect());
        prop_assert_eq!(key(&decomposed), key(&composed));
        if let Some(key_of_value) = key(&value) {
            prop_assert_eq!(Some(key_of_value), key(&composed));
        }
    }

    #[test]
    fn canonical_text_reads_back_as_itself(value in value()) {
        if let Ok(canonical) = canonical_json(&value) {
            let read_back: Value = serde_json::from_str(&canonical).unwrap();
            prop_assert_eq!(canonical_json(&read_back).unwrap(), canonical.clone());
            prop_assert_eq!(canonical_json(&parse_json(&canonical).unwrap()).unwrap(), canonical);
        }
    }

    #[test]
    fn every_change_of_a_value_changes_the_key(value in plain_value(), other in plain_value()) {
        let as_doubles_and_integers = |value: &Value| canonical_json(value).unwrap();
        let same_value = serde_json::from_str::<Value>(&as_doubles_and_integers(&value)).unwrap()
            == serde_json::from_str::<Value>(&as_doubles_and_integers(&other)).unwrap();
        prop_assert_eq!(key(&value) == key(&other), same_value);
        prop_assert_ne!(key(&json!([value.clone(), other.clone()])), key(&json!([[value.clone()], other.clone()])));
        prop_assert_ne!(key(&json!([value.clone()])), key(&value));
    }

    #[test]
    fn integers_keep_their_digits(unsigned in any::<u64>(), signed in any::<i64>()) {
        prop_assert_eq!(canonical_json(&json!(unsigned)).unwrap(), unsigned.to_string());
        prop_assert_eq!(canonical_json(&json!(signed)).unwrap(), signed.to_string());
        prop_assert_ne!(key(&json!(unsigned)), key(&json!(unsigned.wrapping_add(1))));
    }

    #[test]
    fn one_number_in_any_form_gives_one_key(integer in -9_007_199_254_740_992..=9_007_199_254_740_992_i64, zeros in 0..5_usize) {
        let forms = [
            integer.to_string(),
            format!("{integer}.{}", "0".repeat(zeros + 1)),
            format!("{integer}e0"),
            format!("{integer}E+00"),
            format!("{integer}{}e-{zeros}", "0".repeat(zeros)),
        ];
        for form in forms {
            prop_assert_eq!(key(&parse_json(&form).unwrap()), key(&json!(integer)), "{}", form);
        }
    }

    #[test]
    fn doubles_read_back_exactly(double in any::<f64>()) {
        let canonical = canonical_json(&json!(double)).unwrap();
        let read_back: f64 = canonical.parse().unwrap();
        prop_assert!(read_back == double, "{} {}", canonical, double);
    }

    #[test]
    fn struct_value_and_text_agree(
        zeta in any::<f32>(), ratio in any::<f64>(), large in any::<u64>(), small in any::<i64>(),
        wide in any::<u128>(), name in text(), missing in any::<Option<bool>>(), pair in any::<(u8, char)>(),
        inner in value(),
    ) {
        let nested = vec![Map::from_iter([("inner".to_owned(), inner)])];
        let args = Args { zeta, ratio, large, small, wide, name: &name, missing, pair, nested };
        let text = serde_json::to_string(&args).unwrap();
        let from_struct = UniqueKey::hash_of(&args).text().map(str::to_owned).map_err(|error| error.to_string());
        let from_text = parse_json(&text).and_then(|value| UniqueKey::hash_of(value).text().map(str::to_owned));
        let from_raw = UniqueKey::hash_of(serde_json::value::RawValue::from_string(text).unwrap());
        prop_assert_eq!(&from_struct, &from_text.map_err(|error| error.to_string()));
        prop_assert_eq!(&from_struct, &from_raw.text().map(str::to_owned).map_err(|error| error.to_string()));
        let digits = wide.to_string();
        let is_held = u64::try_from(wide).is_ok() || digits.trim_end_matches('0').len() <= 17;
        prop_assert!(is_held || from_struct.is_err_and(|error| error.contains("make it a string")));
    }

    #[test]
    fn a_selection_does_not_depend_on_the_order_of_names(
        args in value_of(number(), "[a-c0-2]{0,2}"),
        names in vec("(/[a-c0-2]{0,2}){1,3}|[a-c]{1,2}", 1..6),
        seed in any::<prop::sample::Index>(),
    ) {
        let canonical = |names: Vec<String>| {
            let subject = Subject { kind: "k", queue: "q", args: &args, meta: &args, window_at: None };
            UniquePolicy::new().optional_arg_fields(names.clone()).by_meta(names).canonical(&subject).unwrap()
        };
        let mut rotated = names.clone();
        rotated.rotate_left(seed.index(names.len()));
        rotated.extend(names.clone());
        prop_assert_eq!(canonical(names), canonical(rotated));
    }

    #[test]
    fn no_document_panics(document in value(), text in text()) {
        let _ = UniquePolicy::from_ojs(&document);
        let _ = text.parse::<UniquePolicy>();
        for field in ["keys", "args_keys", "meta_keys", "period", "states", "scope", "until", "key", "exclude_type"] {
            let _ = UniquePolicy::from_ojs(&json!({field: document}));
        }
    }

    #[test]
    fn no_text_panics(text in "[-+.eE0-9\"\\\\{}\\[\\],: ]{0,40}") {
        let exact = parse_json(&text);
        let plain = serde_json::from_str::<Value>(&text);
        prop_assert_eq!(exact.is_ok(), plain.is_ok(), "{}", text);
    }
}

#[test]
fn keys_are_frozen() {
    // A change here is a change of every stored key: never edit, only add.
    for (value, hash) in [
        (json!(null), "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
        (json!({}), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
        (
            json!({"～": true, "😀": null, "b": [1.5, 1e21, -0.0, u64::MAX], "a": "e\u{301}"}),
            "ee81c4248d2c66362c2fe75b3c0b3309fc2b0ab3d69541a88a39d99d062934f7",
        ),
    ] {
        assert_eq!(UniqueKey::hash_of(value).text().unwrap(), hash);
    }
}

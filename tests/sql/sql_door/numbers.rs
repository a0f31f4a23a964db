//! Numbers in keys: one text, or one error, in Rust and in SQL.

use super::random;
use support::prelude::*;

#[support::test]
async fn a_number_has_one_text_or_one_error_in_rust_and_in_sql(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    // `is_right` by the exact arithmetic of numeric: a text is worth the number, or the number has 17 digits at the most.
    let tried =
        "CREATE FUNCTION pg_temp.tried(given text, OUT answer text, OUT is_right boolean) LANGUAGE plpgsql AS $$
        DECLARE
            digits CONSTANT text := trim('0' FROM replace(trim_scale(abs(given::numeric))::text, '.', ''));
        BEGIN
            answer := {schema}.canonical_json(given::jsonb);
            is_right := answer::numeric = given::numeric OR (length(digits) <= 17 AND answer::numeric <> 0);
        EXCEPTION WHEN invalid_parameter_value THEN
            answer := SQLERRM;
            is_right := length(digits) > 17 OR abs(given::numeric) < 1e-323 OR abs(given::numeric) > 1e308;
        END $$";
    sqlx::raw_sql(database.sql(tried)).execute(&mut *connection).await.unwrap();
    let mut random = Dice::new(11, 0);
    let mut numbers: Vec<String> = (0..soak(20_000, 200_000)).map(|_| random::any_number(&mut random)).collect();
    let edge = 1_u128 << 64;
    numbers.extend(
        (edge - 3..edge + 3).flat_map(|number| ["", ".0", "e0", "e-1", "e1", ".5"].map(|end| format!("{number}{end}"))),
    );
    numbers.extend([u128::MAX, u128::MAX - 1, 10_u128.pow(38)].map(|number| number.to_string()));
    numbers.extend((-345..-320).chain(300..320).flat_map(|power| [format!("1e{power}"), format!("-2.5e{power}")]));
    // Each power of two and of ten that is a double, and its neighbours.
    let two = (-1074..=1023).map(|power| f64::powi(2.0, power));
    let ten = (-323..=308).map(|power| format!("1e{power}").parse::<f64>().unwrap());
    let near = |number: f64| (number.to_bits().saturating_sub(2)..=number.to_bits() + 2).map(f64::from_bits);
    numbers
        .extend(two.chain(ten).flat_map(near).filter(|number| number.is_finite()).map(|number| format!("{number:e}")));
    let rows =
        sqlx::query("SELECT t.answer, t.is_right FROM unnest($1::text[]) AS n (text), pg_temp.tried(n.text) AS t")
            .bind(&numbers)
            .fetch_all(&mut *connection)
            .await
            .unwrap();
    let mut refused = 0;
    for (number, row) in numbers.iter().zip(&rows) {
        let rust = parse_json(number).and_then(|value| canonical_json(&value));
        refused += usize::from(rust.is_err());
        let rust = rust.unwrap_or_else(|error| error.to_string());
        assert_eq!(row.get::<String, _>("answer"), rust, "{number}");
        assert!(row.get::<bool, _>("is_right"), "{number}: {rust}");
    }
    assert!(refused > 1000 && rows.len() - refused > 10_000, "{refused} of {}", rows.len());
    connection.close().await.unwrap();
}

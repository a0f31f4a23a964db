//! The functions do the same under any settings and any search path.

use support::prelude::*;

/// A key that depends on numbers, text, a window and a selection, its text, and what an insert
/// and an explanation of it say.
async fn everything(database: &Database, connection: &mut PgConnection) -> Vec<String> {
    let job = r#"'kìnd'::text, E'{"x": [0.1, 1e22, 123456.789e-13, 1.7976931348623157e308], "\\u0301\\u212b": "a\\\\b\\u0001", "é": null}'::jsonb,
        queue => 'q'::text, meta => '{"a": {"b/c": 1}}'::jsonb, scheduled_at => timestamptz 'epoch' + 1e9 * interval '1 s'"#;
    let policy = r#"unique_policy => '{"keys": ["type", "queue", "args", "meta"], "meta_keys": ["/a/b~1c"], "window": "P1W", "scope": "exists"}'::jsonb"#;
    let mut told = Vec::new();
    for text in [
        format!("SELECT {{schema}}.unique_key({job}, {policy})"),
        format!("SELECT i.state || i.duplicate || i.unique_key FROM {{schema}}.insert_job({job}, {policy}) AS i"),
        format!("SELECT e.canonical || e.unique_key || e.outcome || array_to_string(e.claims_in, ' ') || e.frees
            FROM {{schema}}.explain_unique({job}, {policy}) AS e"),
        format!("SELECT ({{schema}}.release_claim({{schema}}.unique_key({job}, {policy})) IS NOT NULL)::text"),
        "SELECT i.state || (i.id IS NOT NULL) FROM {schema}.insert_job('b', unique_policy => '{\"ttl\": \"PT1M\", \"on_conflict\": \"replace\"}') AS i".to_owned(),
        "SELECT e.outcome || array_to_string(e.claims_in, ' ') FROM {schema}.explain_unique('b', unique_policy => '{}') AS e".to_owned(),
        "SELECT i.state || i.duplicate FROM {schema}.insert_job('c') AS i".to_owned(),
    ] {
        let row = sqlx::raw_sql(database.sql(&text)).fetch_one(&mut *connection).await;
        told.push(row.unwrap_or_else(|error| panic!("{text}: {error}")).get(0));
    }
    sqlx::raw_sql(database.sql("DELETE FROM {schema}.job")).execute(connection).await.unwrap();
    told
}

async fn set(database: &Database, connection: &mut PgConnection, text: &str) {
    sqlx::raw_sql(database.sql(text)).execute(connection).await.expect(text);
}

#[support::test]
async fn no_setting_of_the_session_changes_a_key_or_an_answer(database: Database) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let usual = everything(&database, &mut connection).await;
    assert!(usual[2].contains("\"period\":\"2001-09-03T00:00:00Z/PT604800S\""), "{}", usual[2]);
    assert!(usual[2].contains("[0.1,1e+22,1.23456789e-8,1.7976931348623157e+308]"), "{}", usual[2]);
    for setting in [
        "timezone = 'Asia/Kolkata'",
        "timezone = 'America/St_Johns'",
        "datestyle = 'German, DMY'",
        "datestyle = 'SQL, MDY'",
        "intervalstyle = 'sql_standard'",
        "intervalstyle = 'iso_8601'",
        "extra_float_digits = -15",
        "extra_float_digits = 0",
        "lc_numeric = 'C'",
        "lc_time = 'C'",
        "lc_monetary = 'C'",
        "bytea_output = 'escape'",
        "standard_conforming_strings = off",
        "backslash_quote = off",
        "escape_string_warning = off",
        "transform_null_equals = on",
        "array_nulls = off",
        "quote_all_identifiers = on",
        "plan_cache_mode = force_custom_plan",
        "plan_cache_mode = force_generic_plan",
        "default_transaction_isolation = 'serializable'",
        "enable_indexscan = off",
        "xmlbinary = 'hex'",
        "row_security = off",
        "client_encoding = 'LATIN1'",
        "client_min_messages = 'error'",
        "jit_above_cost = 0",
    ] {
        // One after the other, and all together at the end. A server may know a setting no more.
        if let Err(error) = sqlx::raw_sql(database.sql(&format!("SET {setting}"))).execute(&mut connection).await {
            println!("left out: {setting}: {error}");
            continue;
        }
        // sqlx speaks UTF8 and standard strings: what it sends is escaped for the others.
        if setting.starts_with("client_encoding") {
            set(&database, &mut connection, "SET client_encoding = 'UTF8'").await;
        }
        assert_eq!(everything(&database, &mut connection).await, usual, "{setting}");
    }
}

#[support::test]
async fn any_search_path_will_do(database: Database) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let usual = everything(&database, &mut connection).await;
    set(&database, &mut connection, "SET search_path = ''").await;
    assert_eq!(everything(&database, &mut connection).await, usual);

    // Everything that the functions use by name, and a few operators, stand in front.
    let hostile = "
        CREATE SCHEMA {schema}_hostile;
        SET search_path = {schema}_hostile, pg_catalog;
        CREATE TABLE job (id uuid, unique_key text, claims boolean);
        CREATE TYPE job_state AS ENUM ('mine');
        CREATE FUNCTION trap() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
        CREATE FUNCTION nfc(text) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION _canonical_value(jsonb, boolean) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION canonical_json(jsonb) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION _double_text(numeric) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION state_names(smallint) RETURNS text[] LANGUAGE sql AS 'SELECT ARRAY[{schema}_hostile.trap()]';
        CREATE FUNCTION length(text) RETURNS integer LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::integer';
        CREATE FUNCTION sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::bytea';
        CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::timestamptz';
        CREATE FUNCTION gen_random_uuid() RETURNS uuid LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::uuid';
        CREATE FUNCTION jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION jsonb_each(jsonb) RETURNS text LANGUAGE sql AS 'SELECT {schema}_hostile.trap()';
        CREATE FUNCTION boom(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::boolean';
        CREATE FUNCTION boom(jsonb, text) RETURNS jsonb LANGUAGE sql AS 'SELECT {schema}_hostile.trap()::jsonb';
        CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = boom);
        CREATE OPERATOR <> (LEFTARG = text, RIGHTARG = text, FUNCTION = boom);
        CREATE OPERATOR -> (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = boom);
        CREATE TEMPORARY TABLE job (id uuid, unique_key text, claims boolean);
        CREATE TEMPORARY TABLE runner (id uuid);
    ";
    set(&database, &mut connection, hostile).await;
    let job = r#"'kìnd'::text, '{"a": 0.5}'::jsonb, unique_policy => '{"keys": ["args"], "args_keys": ["a"], "window": "P1D"}'::jsonb"#;
    let texts = [
        format!("SELECT {{schema}}.unique_key({job})"),
        format!("SELECT (i.id IS NOT NULL)::text FROM {{schema}}.insert_job({job}) AS i"),
        format!("SELECT e.outcome FROM {{schema}}.explain_unique({job}) AS e"),
        format!("SELECT ({{schema}}.release_claim({{schema}}.unique_key({job})) IS NOT NULL)::text"),
        "SELECT {schema}.canonical_json('{\"b\": 0.5, \"a\": [1e30]}')".to_owned(),
    ];
    for path in ["{schema}_hostile, pg_catalog", "pg_temp, {schema}_hostile, pg_catalog, {schema}"] {
        set(&database, &mut connection, &format!("SET search_path = {path}")).await;
        for (text, wanted) in
            texts.iter().zip([None, Some("true"), Some("duplicate"), Some("true"), Some("{\"a\":[1e+30],\"b\":0.5}")])
        {
            let row = sqlx::raw_sql(database.sql(text)).fetch_one(&mut connection).await;
            let found: String = row.unwrap_or_else(|error| panic!("{path}: {text}: {error}")).get(0);
            if let Some(wanted) = wanted {
                assert_eq!(found, wanted, "{text}");
            }
        }
    }
    set(&database, &mut connection, "DROP SCHEMA {schema}_hostile CASCADE").await;
}

#[support::test]
async fn a_collation_of_the_caller_s_makes_no_difference(database: Database) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let mut collations = vec!["\"C\"".to_owned()];
    let icu = "CREATE COLLATION {schema}.fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    match sqlx::raw_sql(database.sql(icu)).execute(&mut connection).await {
        Ok(_) => collations.push(format!("{}.fold", database.schema)),
        Err(error) => println!("left out: a collation of ICU: {error}"),
    }
    for collation in collations {
        let text = format!(
            "SELECT {{schema}}.unique_key('K' COLLATE {collation}, unique_policy => '{{\"keys\": [\"queue\"]}}')
                = {{schema}}.unique_key('K', unique_policy => '{{\"keys\": [\"queue\"]}}')
                AND (SELECT NOT i.duplicate FROM {{schema}}.insert_job('K' COLLATE {collation}, unique_policy => '{{\"on_conflict\": \"replace\"}}') AS i)
                AND (SELECT e.outcome = 'inserted' FROM {{schema}}.explain_unique('k' COLLATE {collation}, unique_policy => '{{}}') AS e)
                AND {{schema}}.release_claim('K' COLLATE {collation}) IS NULL"
        );
        let row = sqlx::raw_sql(database.sql(&text)).fetch_one(&mut connection).await;
        assert!(row.unwrap_or_else(|error| panic!("{collation}: {error}")).get::<bool, _>(0), "{collation}");
    }
}

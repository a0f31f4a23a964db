//! No order and no comparison of text depends on the database's collation.
//!
//! PostgreSQL writes the collation of each comparison into the parse trees that it stores: of views, indexes, constraints and
//! defaults, and of functions of SQL. A statement of the client becomes such a function here. Bodies of PL/pgSQL are not
//! stored as trees: `UNIQUEUE_ICU_LOCALE=en-US cargo test` runs them where another order of text shows.

use support::prelude::*;

/// The comparisons by the database's collation, whose OID is 100: of operators and functions whose answer depends on one, and
/// of plain values that are sorted.
const FAULTS: &str = r"
WITH tree (name, text) AS (
    SELECT c.relname::text, r.ev_action::text
    FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = r.ev_class
    WHERE c.relnamespace = '{schema}'::regnamespace
    UNION ALL
    SELECT p.proname::text, p.prosqlbody::text
    FROM pg_proc AS p
    WHERE p.pronamespace IN ('{schema}'::regnamespace, pg_my_temp_schema()) AND p.prosqlbody IS NOT NULL
    UNION ALL
    SELECT c.relname::text, concat(i.indexprs, i.indpred)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = '{schema}'::regnamespace
    UNION ALL
    SELECT o.conname::text, o.conbin::text
    FROM pg_constraint AS o WHERE o.connamespace = '{schema}'::regnamespace AND o.conbin IS NOT NULL
), known (oid, name) AS (
    SELECT oid, oprname::text FROM pg_operator
    WHERE oprname IN ('<', '>', '<=', '>=', '~', '~*', '!~', '!~*', '~~', '~~*', '!~~', '!~~*')
    UNION ALL
    SELECT oid, proname::text FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^(min|max|lower|upper|initcap|starts_with|regexp.*)$'
)
SELECT coalesce(string_agg(DISTINCT f.name, ', '), '') FROM (
    SELECT concat_ws(': ', t.name, k.name)
    FROM tree AS t,
        regexp_matches(
            t.text, '\{(?:OPEXPR|SCALARARRAYOPEXPR|FUNCEXPR|AGGREF) :(?:opno|funcid|aggfnoid) (\d+) [^{}]*:inputcollid 100 ', 'g'
        ) AS m
        JOIN known AS k ON k.oid = m[1]::oid
    UNION ALL
    SELECT concat_ws(': sorted by ', t.name, m[1])
    FROM tree AS t, regexp_matches(
        t.text, '\{TARGETENTRY :expr \{\w+ [^{}]*coll(?:ation|id) 100 [^{}]*\} :resno \d+ :resname (\S+) :ressortgroupref [1-9]', 'g'
    ) AS m
) AS f (name)";

async fn faults(database: &Database, connection: &mut PgConnection) -> String {
    sqlx::query_scalar(database.sql(FAULTS)).fetch_one(connection).await.unwrap()
}

#[support::test]
async fn columns_and_types_of_text_are_compared_byte_by_byte(database: Database) {
    let names = "SELECT coalesce(string_agg(name, ', '), '') FROM (
        SELECT format('%s.%s', c.relname, a.attname)
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p', 'i')
            AND c.relname !~ '^schema_history' AND a.attcollation = 100
        UNION ALL
        SELECT typname FROM pg_type
        WHERE typnamespace = '{schema}'::regnamespace AND typtype = 'd' AND typcollation = 100
    ) AS t (name)";
    assert_eq!(database.text(names).await, "");
}

#[support::test]
async fn nothing_that_is_stored_or_sent_follows_the_databases_collation(database: Database) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let statements = database.client.statements_text();
    for (name, text) in &statements {
        database.prepare(&mut connection, name).await;
        let types = "SELECT array_to_string(parameter_types, ', ') FROM pg_prepared_statements WHERE name = $1";
        let types = sqlx::query_scalar::<_, String>(types).bind(format!("prepared_{name}"));
        let types = types.fetch_one(&mut connection).await.unwrap();
        let function =
            format!("CREATE FUNCTION pg_temp.\"{name}\"({types}) RETURNS void LANGUAGE sql BEGIN ATOMIC {text};\nEND");
        sqlx::raw_sql(AssertSqlSafe(function)).execute(&mut connection).await.expect(name);
    }
    assert_eq!(faults(&database, &mut connection).await, "");
    // The check finds what it looks for.
    let faulty = "CREATE FUNCTION pg_temp.faulty(a text[]) RETURNS void LANGUAGE sql BEGIN ATOMIC
        SELECT max(b), lower('a'::text) FROM unnest(a) AS u (b) WHERE b < 'a' GROUP BY b ORDER BY b; END";
    sqlx::raw_sql(faulty).execute(&mut connection).await.unwrap();
    let found = faults(&database, &mut connection).await;
    for fault in ["faulty: <", "faulty: lower", "faulty: max", "faulty: sorted by"] {
        assert!(found.contains(fault), "{fault}: {found}");
    }
}

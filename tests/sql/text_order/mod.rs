//! No order and no comparison of text depends on the database's collation.
//!
//! PostgreSQL writes the collation of each comparison into its parse trees. The tests read these trees: of what the database
//! keeps parsed, of the client's statements, and of the functions whose bodies are texts. Text that has no collation of its
//! own has the database's, and a comparison of such text is a fault.

mod faults;
mod straight;
mod tree;

use std::fs;
use std::path::PathBuf;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, SqlSafeStr};
use tokio::sync::OnceCell;
use uniqueue::embedded::Postgres;
use uniqueue::{Client, SchemaName};

use self::faults::Catalog;
use self::straight::straighten;
use self::tree::Tree;

/// A server whose log has the parse trees of a session that asks for them.
struct Parser {
    connection: PgConnection,
    log: PathBuf,
    catalog: Catalog,
    client: Client,
}

/// How a text reaches PostgreSQL.
enum Sent {
    ToRun,
    ToPrepare,
}

impl Parser {
    async fn new() -> Self {
        static SERVER: OnceCell<Postgres> = OnceCell::const_new();
        let settings = [("log_line_prefix", ""), ("log_min_error_statement", "panic"), ("debug_pretty_print", "off")];
        let server = SERVER.get_or_init(async || {
            let builder =
                settings.iter().fold(Postgres::builder(), |builder, (name, value)| builder.setting(*name, *value));
            builder.start().await.unwrap()
        });
        let server = server.await;
        let mut connection = PgConnection::connect(server.url()).await.unwrap();
        let name = format!("parsed_{}", uuid::Uuid::now_v7().simple());
        let client = Client::builder().schema(SchemaName::new(&name).unwrap());
        let client = client.pool(sqlx::PgPool::connect(server.url()).await.unwrap());
        client.migrate().await.unwrap();
        let catalog = Catalog::read(&mut connection).await;
        let log = server.data_dir().parent().unwrap().join("log");
        let mut parser = Self { connection, log, catalog, client };
        parser.run(&format!("SET search_path = {name}")).await.unwrap();
        parser
    }

    async fn run(&mut self, text: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut self.connection).await.map(drop)
    }

    /// The faults in all that PostgreSQL parses while it runs a text, and the error it ends with.
    async fn faults_of(&mut self, text: &str) -> (usize, Vec<String>, Option<String>) {
        self.faults(text, Sent::ToRun).await
    }

    /// The faults in a statement that is prepared and not run. It is prepared by the protocol: for the SQL command PREPARE,
    /// PostgreSQL 14 does not log the parse tree.
    async fn faults_of_prepared(&mut self, text: &str) -> (usize, Vec<String>, Option<String>) {
        self.faults(text, Sent::ToPrepare).await
    }

    async fn faults(&mut self, text: &str, sent: Sent) -> (usize, Vec<String>, Option<String>) {
        // Tests run at once, and share the log. A session that logs has it to itself.
        static LOG: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _alone = LOG.lock().await;
        let before = fs::metadata(&self.log).unwrap().len() as usize;
        self.run("SET debug_print_parse = on").await.unwrap();
        let outcome = match sent {
            Sent::ToRun => self.run(text).await,
            Sent::ToPrepare => self.connection.prepare(AssertSqlSafe(text.to_owned()).into_sql_str()).await.map(drop),
        };
        let error = outcome.err().map(|error| match error {
            sqlx::Error::Database(error) => error.message().to_owned(),
            error => error.to_string(),
        });
        self.run("SET debug_print_parse = off").await.unwrap();
        let log = fs::read(&self.log).unwrap();
        let log = String::from_utf8_lossy(&log[before..]).into_owned();
        let trees: Vec<_> = log.split("LOG:  parse tree:").skip(1).filter(|tree| tree.contains("{QUERY")).collect();
        let faults = trees.iter().flat_map(|entry| {
            let tree = entry.split_once("DETAIL:").expect("a tree").1;
            let (tree, place) = tree.split_once("\nCONTEXT:").unwrap_or((tree, ""));
            let tree = tree.split("\nLOG:").next().expect("the tree");
            let place = place.split("\nLOG:").next().expect("the place").trim().replace('\n', " ");
            self.catalog.faults(&Tree::read(tree)).into_iter().map(move |fault| format!("{fault}: {place}"))
        });
        (trees.len(), faults.collect(), error)
    }
}

#[tokio::test]
async fn the_check_finds_each_comparison_that_the_databases_collation_decides() {
    let mut parser = Parser::new().await;
    for (faulty, right) in [
        ("SELECT 'a'::text < $1::text", "SELECT 'a'::text < $1::text COLLATE \"C\""),
        (
            "SELECT a FROM unnest($1::text[]) AS u (a) ORDER BY a",
            "SELECT a FROM unnest($1::text[]) AS u (a) ORDER BY a COLLATE \"C\"",
        ),
        (
            "SELECT DISTINCT a FROM unnest($1::text[]) AS u (a)",
            "SELECT DISTINCT a COLLATE \"C\" FROM unnest($1::text[]) AS u (a)",
        ),
        (
            "SELECT min(a) FROM unnest($1::text[]) AS u (a)",
            "SELECT min(a COLLATE \"C\") FROM unnest($1::text[]) AS u (a)",
        ),
        (
            "SELECT string_agg(a, '' ORDER BY a) FROM unnest($1::text[]) AS u (a)",
            "SELECT string_agg(a, '' ORDER BY a COLLATE \"C\") FROM unnest($1::text[]) AS u (a)",
        ),
        ("SELECT greatest($1::text, 'a')", "SELECT greatest($1::text COLLATE \"C\", 'a')"),
        ("SELECT $1::text ~ '[a-z]'", "SELECT $1::text COLLATE \"C\" ~ '[a-z]'"),
        ("SELECT $1::text ILIKE 'a%'", "SELECT $1::text COLLATE \"C\" ILIKE 'a%'"),
        ("SELECT lower($1::text)", "SELECT lower($1::text COLLATE \"C\")"),
        ("SELECT $1::text UNION SELECT 'a'", "SELECT $1::text COLLATE \"C\" UNION SELECT 'a'"),
        ("SELECT (1, $1::text) < (2, 'a')", "SELECT (1, $1::text COLLATE \"C\") < (2, 'a')"),
        (
            "SELECT row_number() OVER (PARTITION BY $1::text)",
            "SELECT row_number() OVER (PARTITION BY $1::text COLLATE \"C\")",
        ),
        ("SELECT 1 FROM job AS j ORDER BY j.args", "SELECT 1 FROM job AS j ORDER BY j.kind, j.id"),
    ] {
        let (_, faults, error) = parser.faults_of_prepared(faulty).await;
        assert!(faults.len() == 1 && error.is_none(), "{faulty}: {faults:?} {error:?}");
        let (parsed, faults, error) = parser.faults_of_prepared(right).await;
        assert!(parsed > 0 && faults.is_empty() && error.is_none(), "{right}: {faults:?} {error:?}");
    }
}

#[tokio::test]
async fn views_indexes_and_parsed_functions_never_follow_the_databases_collation() {
    let mut parser = Parser::new().await;
    let query = "
        SELECT 'view ' || c.relname, r.ev_action::text
        FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = r.ev_class
        WHERE c.relnamespace = current_schema()::regnamespace
        UNION ALL
        SELECT 'function ' || p.proname, p.prosqlbody::text
        FROM pg_proc AS p WHERE p.pronamespace = current_schema()::regnamespace AND p.prosqlbody IS NOT NULL
        UNION ALL
        SELECT 'index ' || c.relname, concat_ws(' ', i.indexprs::text, i.indpred::text)
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
        UNION ALL
        SELECT 'constraint ' || o.conname, o.conbin::text
        FROM pg_constraint AS o WHERE o.connamespace = current_schema()::regnamespace AND o.conbin IS NOT NULL
        UNION ALL
        SELECT 'default of ' || d.adrelid::regclass, d.adbin::text
        FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = d.adrelid
        WHERE c.relnamespace = current_schema()::regnamespace";
    let rows = sqlx::query(query).fetch_all(&mut parser.connection).await.unwrap();
    assert!(rows.len() > 100, "{}", rows.len());
    let mut faults = Vec::new();
    for row in rows {
        let (name, tree): (String, String) = (row.get(0), row.get(1));
        faults.extend(parser.catalog.faults(&Tree::read(&tree)).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn columns_and_types_of_text_are_compared_byte_by_byte() {
    let mut parser = Parser::new().await;
    let query = "
        SELECT format('%s.%s', c.relname, a.attname)
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'i')
            AND c.relname !~ '^schema_history' AND a.attcollation = 100
        UNION ALL
        SELECT t.typname::text FROM pg_type AS t
        WHERE t.typnamespace = current_schema()::regnamespace AND t.typtype = 'd' AND t.typcollation = 100";
    let rows = sqlx::query(query).fetch_all(&mut parser.connection).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn no_statement_of_the_client_follows_the_databases_collation() {
    let mut parser = Parser::new().await;
    let mut faults = Vec::new();
    let (mut statements, mut seen) = (0, 0);
    for (name, text) in parser.client.statements_text() {
        let (parsed, found, error) = parser.faults_of_prepared(&text).await;
        assert_eq!(error, None, "{name}");
        statements += 1;
        seen += usize::from(parsed > 0);
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(statements > 100 && seen == statements, "{seen} of {statements}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn no_function_whose_body_is_a_text_follows_the_databases_collation() {
    let mut parser = Parser::new().await;
    let query = "
        SELECT p.proname::text AS name, l.lanname::text AS language, p.prosrc AS body, pg_get_functiondef(p.oid) AS definition,
            (
                SELECT coalesce(string_agg('NULL::' || format_type(t.oid, NULL), ', ' ORDER BY t.place), '')
                FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS t (oid, place)
            ) AS nulls,
            coalesce(
                (SELECT g.tgrelid::regclass::text FROM pg_trigger AS g WHERE g.tgfoid = p.oid ORDER BY g.oid LIMIT 1), 'queue'
            ) AS of_table
        FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prosqlbody IS NULL";
    let rows = sqlx::query(query).fetch_all(&mut parser.connection).await.unwrap();
    assert!(rows.len() > 30, "{}", rows.len());
    let straight = format!("{}_straight", parser.client.schema());
    // The transition table of the only trigger.
    parser.run(&format!("CREATE SCHEMA {straight}; CREATE TEMP TABLE entered (LIKE job)")).await.unwrap();
    let mut faults = Vec::new();
    for row in rows {
        let text = |column: &str| row.get::<String, _>(column);
        let (name, body) = (text("name"), text("body"));
        // Made once more, a body of SQL is parsed. One of PL/pgSQL is parsed statement by statement, as it runs.
        let definition = text("definition").replacen(
            &format!("FUNCTION {}.", parser.client.schema()),
            &format!("FUNCTION {straight}."),
            1,
        );
        let is_sql = text("language") == "sql";
        let made = if is_sql {
            definition
        } else {
            let (head, _) = definition.split_once("AS $").expect("a body");
            format!(
                "{} AS $straight${}$straight$",
                head.replace(" STRICT", "").replace("RETURNS trigger", "RETURNS void"),
                straighten(&body, &text("of_table"))
            )
        };
        let call = if is_sql { String::new() } else { format!("; SELECT FROM {straight}.{name}({})", text("nulls")) };
        let (parsed, found, error) = parser.faults_of(&format!("{made}{call}")).await;
        assert!(parsed > 0, "{name}: {error:?}");
        match error {
            Some(error) if !is_sql && error.ends_with("not analysed: ") => {}
            None if is_sql => {}
            error => faults.push(format!("{name}: {error:?}\n{made}")),
        }
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

//! What in a parse tree depends on the database's collation.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::tree::Tree;

/// The OID of the collation `default`, the database's own.
const DEFAULT: &str = "100";

/// Where a node says the collation of its value, in the names of PostgreSQL 14 to 18.
const COLLATIONS: &[(&str, &str)] = &[
    ("AGGREF", "aggcollid"),
    ("ARRAY", "array_collid"),
    ("ARRAYEXPR", "array_collid"),
    ("ARRAYCOERCEEXPR", "resultcollid"),
    ("CASE", "casecollid"),
    ("CASEEXPR", "casecollid"),
    ("CASETESTEXPR", "collation"),
    ("COALESCE", "coalescecollid"),
    ("COALESCEEXPR", "coalescecollid"),
    ("COERCETODOMAIN", "resultcollid"),
    ("COERCEVIAIO", "resultcollid"),
    ("COLLATEEXPR", "collOid"),
    ("CONST", "constcollid"),
    ("DISTINCTEXPR", "opcollid"),
    ("FIELDSELECT", "resultcollid"),
    ("FUNCEXPR", "funccollid"),
    ("MINMAX", "minmaxcollid"),
    ("MINMAXEXPR", "minmaxcollid"),
    ("NULLIFEXPR", "opcollid"),
    ("OPEXPR", "opcollid"),
    ("PARAM", "paramcollid"),
    ("RELABELTYPE", "resultcollid"),
    ("SUBSCRIPTINGREF", "refcollid"),
    ("VAR", "varcollid"),
    ("WINDOWFUNC", "wincollid"),
];

/// The operators and functions whose answer depends on a collation. Equality is not among them: under each collation that
/// can be a database's, two texts are equal exactly when their bytes are.
pub struct Catalog {
    /// By their OIDs, with whether they compare `jsonb`, whose texts are always compared by the database's collation.
    names: HashMap<String, (String, bool)>,
}

impl Catalog {
    pub async fn read(connection: &mut PgConnection) -> Self {
        let query = "
            SELECT o.oid::text, o.oprname::text AS name, 'jsonb'::regtype IN (o.oprleft, o.oprright) AS is_jsonb
            FROM pg_operator AS o
            WHERE o.oprname IN ('<', '>', '<=', '>=', '~', '~*', '!~', '!~*', '~~', '~~*', '!~~', '!~~*')
            UNION ALL
            SELECT p.oid::text, p.proname::text, false
            FROM pg_proc AS p
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND (
                p.proname IN ('min', 'max', 'lower', 'upper', 'initcap', 'width_bucket', 'starts_with', 'substring')
                OR p.proname LIKE 'regexp%'
            )";
        let rows = sqlx::query(query).fetch_all(connection).await.unwrap();
        Self { names: rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect() }
    }

    /// Each comparison or order of text in a tree that the database's collation decides.
    pub fn faults(&self, tree: &Tree) -> Vec<String> {
        let mut faults = Vec::new();
        tree.each(&mut |name, node| {
            match name {
                "OPEXPR" | "SCALARARRAYOPEXPR" => self.call(node, "opno", &mut faults),
                "FUNCEXPR" => self.call(node, "funcid", &mut faults),
                "AGGREF" => {
                    self.call(node, "aggfnoid", &mut faults);
                    self.order(node, "aggorder", "args", &mut faults);
                    self.order(node, "aggdistinct", "args", &mut faults);
                }
                "ROWCOMPARE" | "ROWCOMPAREEXPR" if mentions_default(node.field("inputcollids")) => {
                    faults.push("a comparison of rows".to_owned());
                }
                "MINMAX" | "MINMAXEXPR" if node.word("inputcollid") == DEFAULT => {
                    faults.push("greatest or least".to_owned());
                }
                "SETOPERATIONSTMT" if node.word("all") != "true" && mentions_default(node.field("colCollations")) => {
                    faults.push("UNION".to_owned());
                }
                "QUERY" => self.query(node, &mut faults),
                _ => {}
            };
        });
        faults
    }

    fn query(&self, node: &Tree, faults: &mut Vec<String>) {
        for clause in ["sortClause", "distinctClause", "groupClause"] {
            self.order(node, clause, "targetList", faults);
        }
        for window in node.items("windowClause") {
            for clause in ["partitionClause", "orderClause"] {
                self.sorted(window.items(clause), clause, node.items("targetList"), faults);
            }
        }
    }

    fn call(&self, node: &Tree, of: &str, faults: &mut Vec<String>) {
        if let Some((name, is_jsonb)) = self.names.get(node.word(of))
            && (*is_jsonb || node.word("inputcollid") == DEFAULT)
        {
            faults.push(name.clone());
        }
    }

    fn order(&self, node: &Tree, clause: &str, targets: &str, faults: &mut Vec<String>) {
        self.sorted(node.items(clause), clause, node.items(targets), faults);
    }

    fn sorted(&self, items: &[Tree], clause: &str, targets: &[Tree], faults: &mut Vec<String>) {
        for item in items {
            let reference = item.word("tleSortGroupRef");
            let target = targets.iter().find(|target| target.word("ressortgroupref") == reference);
            let target = target.expect("what is sorted by");
            let is_jsonb = self.names.get(item.word("sortop")).is_some_and(|(_, is_jsonb)| *is_jsonb);
            if is_of_default(target.field("expr").expect("an expression")) || (is_jsonb && clause == "sortClause") {
                faults.push(format!("{clause} of {}", target.word("resname")));
            }
        }
    }
}

/// Whether an expression's value has the database's collation.
fn is_of_default(expression: &Tree) -> bool {
    let Tree::Node(name, _) = expression else { return false };
    if let Some((_, field)) = COLLATIONS.iter().find(|(known, _)| known == name) {
        return expression.word(field) == DEFAULT;
    }
    match name.as_str() {
        "ROW" | "ROWEXPR" => expression.items("args").iter().any(is_of_default),
        // A scalar subquery, or an array of its rows.
        "SUBLINK" if ["4", "6"].contains(&expression.word("subLinkType")) => {
            let query = expression.field("subselect").expect("a subquery");
            query.items("targetList").first().and_then(|target| target.field("expr")).is_some_and(is_of_default)
        }
        _ => false,
    }
}

fn mentions_default(list: Option<&Tree>) -> bool {
    match list {
        Some(Tree::List(items)) => items.iter().any(|item| matches!(item, Tree::Word(word) if word == DEFAULT)),
        _ => false,
    }
}

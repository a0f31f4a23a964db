-- The counts of each kind in the last $2, from rows of span $1: at most $3 kinds, the kinds with the most failures first.
SELECT
    h.kind, sum(h.inserted)::bigint AS inserted, sum(h.duplicates)::bigint AS duplicates,
    sum(h.completed)::bigint AS completed, sum(h.failed)::bigint AS failed, sum(h.discarded)::bigint AS discarded
FROM /* schema */history AS h
WHERE h.span = $1::text AND h.at >= date_trunc($1, statement_timestamp() - $2::interval, 'UTC') AND h.kind <> ''
GROUP BY h.kind
ORDER BY sum(h.failed) DESC, sum(h.completed) DESC, sum(h.inserted) DESC, h.kind
LIMIT $3

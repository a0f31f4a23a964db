/* planned anew */
-- The counts of each kind in the last time, the kinds with the most failures first.
SELECT
    h.kind,
    jsonb_build_object(
        'inserted', sum(h.inserted), 'duplicates', sum(h.duplicates), 'completed', sum(h.completed), 'failed', sum(h.failed),
        'discarded', sum(h.discarded)
    ) AS counts
FROM /* schema */history AS h
WHERE h.span = $1::jsonb ->> 'span' AND h.kind <> ''
    AND h.at >= date_trunc(
        $1::jsonb ->> 'span', statement_timestamp() - make_interval(secs => ($1::jsonb ->> 'since')::float8), 'UTC'
    )
GROUP BY h.kind
ORDER BY sum(h.failed) DESC, sum(h.completed) DESC, sum(h.inserted) DESC, h.kind
LIMIT ($1::jsonb ->> 'limit')::bigint

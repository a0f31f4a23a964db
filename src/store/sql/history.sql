-- The rows of history of span $1, kind $2 and queue $3 in the last $4, from the start of a step of $5 seconds on. A null queue
-- asks for each queue. Without a row of history there is one row, which has the times.
SELECT
    t.since, t.until, h.at, h.inserted, h.duplicates, h.completed, h.failed, h.discarded, h.wait_seconds, h.run_seconds,
    h.waits::bigint[] AS waits, h.runs::bigint[] AS runs
FROM (
    SELECT
        n.until,
        to_timestamp(floor(extract(epoch FROM n.until - $4::interval) / $5::bigint) * $5::bigint) AS since
    FROM (SELECT clock_timestamp() AS until OFFSET 0) AS n
    OFFSET 0
) AS t
LEFT JOIN /* schema */history AS h
    ON h.span = $1::text AND h.kind = $2::text AND ($3::text IS NULL OR h.queue = $3) AND h.at >= t.since

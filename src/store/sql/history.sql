-- The sums of the history of span $1, kind $2 and queue $3 in the last $4, in steps of $5 seconds. A null queue asks for the
-- sum of a kind over its queues. at is the start of a step with rows. Without a row of history there is one row, which has the
-- times.
--
-- A kind may have rows in a hundred queues, so the rows are added up here and not sent. Its queues are found by one probe of the
-- index each: a scan over the kind would read the keys of all its rows of 90 days.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT
        n.until,
        to_timestamp(floor(extract(epoch FROM n.until - $4::interval) / $5::bigint) * $5::bigint) AS since
    FROM (SELECT clock_timestamp() AS until OFFSET 0) AS n
),
queues AS (
    SELECT coalesce($3::text, (
        SELECT min(h.queue) FROM /* schema */history AS h WHERE h.span = $1::text AND h.kind = $2::text
    )) AS queue
    UNION ALL
    SELECT (
        SELECT min(h.queue) FROM /* schema */history AS h WHERE h.span = $1 AND h.kind = $2 AND h.queue > q.queue
    )
    FROM queues AS q
    WHERE $3 IS NULL AND q.queue IS NOT NULL
)
SELECT
    a.since, a.until, date_bin(make_interval(secs => $5), h.at, a.since) AS at,
    sum(h.inserted)::bigint AS inserted, sum(h.duplicates)::bigint AS duplicates,
    sum(h.completed)::bigint AS completed, sum(h.failed)::bigint AS failed, sum(h.discarded)::bigint AS discarded,
    sum(h.wait_seconds) AS wait_seconds, sum(h.run_seconds) AS run_seconds,
    array_remove(ARRAY[
        sum(h.waits[1]), sum(h.waits[2]), sum(h.waits[3]), sum(h.waits[4]), sum(h.waits[5]), sum(h.waits[6]),
        sum(h.waits[7]), sum(h.waits[8]), sum(h.waits[9]), sum(h.waits[10]), sum(h.waits[11]), sum(h.waits[12]),
        sum(h.waits[13]), sum(h.waits[14]), sum(h.waits[15]), sum(h.waits[16]), sum(h.waits[17]), sum(h.waits[18]),
        sum(h.waits[19]), sum(h.waits[20]), sum(h.waits[21]), sum(h.waits[22]), sum(h.waits[23]), sum(h.waits[24]),
        sum(h.waits[25])
    ], NULL) AS waits,
    array_remove(ARRAY[
        sum(h.runs[1]), sum(h.runs[2]), sum(h.runs[3]), sum(h.runs[4]), sum(h.runs[5]), sum(h.runs[6]),
        sum(h.runs[7]), sum(h.runs[8]), sum(h.runs[9]), sum(h.runs[10]), sum(h.runs[11]), sum(h.runs[12]),
        sum(h.runs[13]), sum(h.runs[14]), sum(h.runs[15]), sum(h.runs[16]), sum(h.runs[17]), sum(h.runs[18]),
        sum(h.runs[19]), sum(h.runs[20]), sum(h.runs[21]), sum(h.runs[22]), sum(h.runs[23]), sum(h.runs[24]),
        sum(h.runs[25])
    ], NULL) AS runs
FROM asked AS a
LEFT JOIN /* schema */history AS h
    ON h.span = $1 AND h.kind = $2 AND h.queue = ANY (ARRAY(SELECT q.queue FROM queues AS q)) AND h.at >= a.since
GROUP BY 1, 2, 3

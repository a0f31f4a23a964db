/* planned anew */
-- The history of a kind and a queue in the last time, in steps without gaps, and the deploys in it, in one row. A null queue asks for
-- the sum of a kind over its queues.
--
-- A kind may have rows in a hundred queues, so the rows are added up here and not sent. Its queues are found by one probe of the
-- index each: a scan over the kind would read the keys of all its rows of 90 days.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT
        n.until, make_interval(secs => ($1::jsonb ->> 'step')::float8) AS step,
        to_timestamp(
            floor(extract(epoch FROM n.until - make_interval(secs => ($1::jsonb ->> 'since')::float8)) / ($1::jsonb ->> 'step')::bigint)
            * ($1::jsonb ->> 'step')::bigint
        ) AS since
    FROM (SELECT clock_timestamp() AS until OFFSET 0) AS n
),
queues AS (
    SELECT coalesce($1::jsonb ->> 'queue', (
        SELECT min(h.queue)
        FROM /* schema */history AS h
        WHERE h.span = $1::jsonb ->> 'span' AND h.kind = $1::jsonb ->> 'kind'
    )) AS queue
    UNION ALL
    SELECT (
        SELECT min(h.queue)
        FROM /* schema */history AS h
        WHERE h.span = $1::jsonb ->> 'span' AND h.kind = $1::jsonb ->> 'kind' AND h.queue > q.queue
    )
    FROM queues AS q
    WHERE $1::jsonb ->> 'queue' IS NULL AND q.queue IS NOT NULL
),
counted AS (
    SELECT
        date_bin(a.step, h.at, a.since) AS at, sum(h.inserted)::bigint AS inserted, sum(h.duplicates)::bigint AS duplicates,
        sum(h.completed)::bigint AS completed, sum(h.failed)::bigint AS failed, sum(h.discarded)::bigint AS discarded,
        jsonb_build_array(to_jsonb(array_remove(ARRAY[/* waits */], NULL)), sum(h.wait_seconds)) AS wait,
        jsonb_build_array(to_jsonb(array_remove(ARRAY[/* runs */], NULL)), sum(h.run_seconds)) AS run
    FROM asked AS a
    JOIN /* schema */history AS h
        ON h.span = $1::jsonb ->> 'span' AND h.kind = $1::jsonb ->> 'kind'
        AND h.queue = ANY (ARRAY(SELECT q.queue FROM queues AS q)) AND h.at >= a.since
    GROUP BY 1
)
SELECT
    a.since, a.until, extract(epoch FROM a.step) AS step,
    ARRAY(
        SELECT jsonb_build_object('at', s.at, 'counts', coalesce(to_jsonb(c), '{}'))
        FROM generate_series(a.since, a.until, a.step) AS s (at)
        LEFT JOIN counted AS c ON c.at = s.at
        ORDER BY s.at
    ) AS points,
    -- The latest hundred.
    ARRAY(
        SELECT jsonb_build_object('at', d.at, 'version', d.version)
        FROM (SELECT l.at, l.version FROM /* schema */deploy AS l WHERE l.at >= a.since ORDER BY l.at DESC LIMIT 100) AS d
        ORDER BY d.at
    ) AS deploys
FROM asked AS a

-- Adds up what became of the files of a run. The wait from insert to start is told by jobs that started once, since a
-- row keeps the time of its latest attempt only, and that this run inserted.
SELECT
    count(*) AS files,
    count(j.id) AS stored,
    count(*) FILTER (WHERE j.state = 'completed') AS completed,
    count(*) FILTER (WHERE j.state = 'discarded') AS discarded,
    count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE j.attempt > 1) AS retried,
    coalesce(sum(j.attempt), 0)::bigint AS attempts,
    count(*) FILTER (WHERE j.state = 'completed' AND c.job_id IS NULL) AS missing,
    count(*) FILTER (WHERE j.state IS DISTINCT FROM 'completed' AND c.job_id IS NOT NULL) AS extra,
    count(*) FILTER (WHERE c.bytes <> f.size) AS changed,
    coalesce(sum(c.bytes), 0)::bigint AS bytes_read,
    coalesce(sum(c.lines), 0)::bigint AS lines,
    (
        extract(epoch FROM max(j.finalized_at) FILTER (WHERE j.state = 'completed') - min(j.attempted_at))
    )::double precision AS work_seconds,
    percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
        ORDER BY (extract(epoch FROM j.attempted_at - j.created_at) * 1000)::double precision
    ) FILTER (WHERE j.attempt = 1 AND NOT f.adopted) AS start_millis
FROM uniqueue_demo.file AS f
LEFT JOIN /* schema */job AS j ON j.id = f.job_id
LEFT JOIN uniqueue_demo.checksum AS c ON c.job_id = f.job_id
WHERE f.run_id = $1

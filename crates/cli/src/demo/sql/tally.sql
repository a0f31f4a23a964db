-- Adds up what became of the files of a run, as one JSON object. The wait from insert to start is told by jobs that
-- started once, since a row keeps the time of its latest attempt only, and that this run inserted.
SELECT to_jsonb(tally) FROM (
    SELECT
        count(*) AS files,
        count(j.id) AS stored,
        count(*) FILTER (WHERE j.state = 'completed') AS completed,
        count(*) FILTER (WHERE j.state = 'discarded') AS discarded,
        count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE j.attempt > 1) AS retried,
        coalesce(sum(j.attempt), 0) AS attempts,
        count(*) FILTER (WHERE j.state = 'completed' AND c.job_id IS NULL) AS missing,
        count(*) FILTER (WHERE j.state IS DISTINCT FROM 'completed' AND c.job_id IS NOT NULL) AS extra,
        count(*) FILTER (WHERE c.bytes <> f.size) AS changed,
        coalesce(sum(c.bytes), 0) AS bytes_read,
        coalesce(sum(c.lines), 0) AS lines,
        round(max(w.ended) - min(w.begun), 3) AS work,
        round(count(*) FILTER (WHERE j.state = 'completed') / nullif(max(w.ended) - min(w.begun), 0), 3) AS jobs_per_second,
        jsonb_build_object(
            'p50', percentile_cont(0.5) WITHIN GROUP (ORDER BY w.seconds),
            'p99', percentile_cont(0.99) WITHIN GROUP (ORDER BY w.seconds)
        ) AS insert_to_start,
        coalesce(
            jsonb_agg(
                jsonb_build_object('path', f.path, 'attempts', j.attempt, 'error', j.errors -> -1 ->> 'error')
                ORDER BY f.path COLLATE "C"
            ) FILTER (WHERE j.state = 'discarded'),
            '[]'
        ) AS failures
    FROM uniqueue_demo.file AS f
    LEFT JOIN /* schema */job AS j ON j.id = f.job_id
    LEFT JOIN uniqueue_demo.checksum AS c ON c.job_id = f.job_id
    LEFT JOIN LATERAL (
        SELECT
            extract(epoch FROM j.attempted_at) AS begun,
            CASE WHEN j.state = 'completed' THEN extract(epoch FROM j.finalized_at) END AS ended,
            CASE WHEN j.attempt = 1 AND NOT f.adopted
                THEN round(extract(epoch FROM j.attempted_at - j.created_at), 3)::double precision END AS seconds
    ) AS w ON true
    WHERE f.run_id = $1
) AS tally

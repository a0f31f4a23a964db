-- The number of jobs of each queue and state, estimated from about $1 pages of the table. They are the same pages each time,
-- so that they stay cached. A table of fewer pages is counted.
WITH sampled (share) AS (
    SELECT least(
        1, $1::double precision * current_setting('block_size')::bigint / greatest(pg_relation_size('/* schema */job'::regclass), 1)
    )
)
SELECT j.queue, j.state::text AS state, round(count(*) / (SELECT s.share FROM sampled AS s))::bigint AS jobs
FROM /* schema */job AS j TABLESAMPLE SYSTEM ((SELECT 100 * s.share FROM sampled AS s)) REPEATABLE (1)
GROUP BY j.queue, j.state

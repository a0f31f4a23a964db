-- Every queue and what is in it. Where counting stopped, the number is estimated from 500 pages of the table, 4 MB, which take
-- about 7 ms.
WITH asked AS (
    SELECT ($1::jsonb ->> 'count_up_to')::integer AS most
),
listed AS MATERIALIZED (
    SELECT q.*
    FROM asked AS a
    CROSS JOIN LATERAL /* schema */queues(a.most, 20000) WITH ORDINALITY AS q
),
counted AS MATERIALIZED (
    SELECT l.name, c.state, least(c.jobs, a.most) AS jobs, c.are_all, c.are_all AND c.jobs <= a.most AS is_exact
    FROM asked AS a
    CROSS JOIN listed AS l
    CROSS JOIN LATERAL (
        VALUES
            ('available', l.available, true), ('running', l.running, true),
            ('scheduled', l.scheduled, l.waiting_are_all), ('retryable', l.retryable, l.waiting_are_all),
            ('discarded', l.discarded, l.discarded_are_all), ('pending', l.pending, l.last_are_all),
            ('completed', l.completed, l.last_are_all), ('cancelled', l.cancelled, l.last_are_all)
    ) AS c (state, jobs, are_all)
),
estimated AS MATERIALIZED (
    SELECT e.queue, e.state, e.jobs
    FROM /* schema */_estimated_jobs(500) AS e
    WHERE EXISTS (SELECT FROM asked AS a WHERE a.most > 1) AND EXISTS (SELECT FROM counted AS c WHERE NOT c.is_exact)
),
told AS (
    SELECT
        c.name,
        jsonb_object_agg(
            c.state,
            CASE
                WHEN c.is_exact THEN jsonb_build_object('exactly', c.jobs)
                -- An estimate below what was counted is wrong.
                WHEN e.jobs > 0 AND e.jobs >= c.jobs THEN jsonb_build_object('about', e.jobs)
                -- Only a part was read, which has none.
                WHEN c.jobs = 0 AND NOT c.are_all THEN jsonb_build_object('about', 0)
                ELSE jsonb_build_object('at_least', c.jobs)
            END
        ) AS jobs
    FROM counted AS c
    LEFT JOIN estimated AS e ON e.queue = c.name AND e.state = c.state
    GROUP BY c.name
)
SELECT l.runners, extract(epoch FROM l.oldest_available_age) AS oldest_available_age, l.status, r.*
FROM listed AS l
JOIN told AS t ON t.name = l.name
LEFT JOIN /* schema */queue AS s ON s.name = l.name
CROSS JOIN LATERAL jsonb_to_record(/* schema */_queue_settings(l.name, s) || t.jobs) AS r (
    name jsonb, paused_at jsonb, paused_by jsonb, pause_reason jsonb, "limit" jsonb, group_limit jsonb, max_waiting jsonb,
    fair jsonb, rate jsonb, group_rate jsonb, held_until jsonb, keep_completed jsonb, keep_cancelled jsonb,
    keep_discarded jsonb, available jsonb, running jsonb, scheduled jsonb, retryable jsonb, discarded jsonb, pending jsonb,
    completed jsonb, cancelled jsonb
)
ORDER BY l.ordinality
LIMIT ($1::jsonb ->> 'limit')::bigint

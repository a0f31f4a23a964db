-- Checks of runners, queues and groups.

CREATE FUNCTION _find_runners(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- A runner that has been dead for more than an hour and left no job behind is left out.
WITH seen AS (
    SELECT
        r.id, r.name, r.queues, -_age(r.leased_until) AS lease_left, _age(r.heartbeat_at) AS heartbeat_age,
        extract(
            epoch FROM least(greatest(r.leased_until, 'epoch'), r.heartbeat_at + interval '1 year') - r.heartbeat_at
        )::double precision AS lease,
        j.running
    FROM runner AS r
    CROSS JOIN LATERAL (
        SELECT count(*) AS running
        FROM (
            -- By job_running; asked only of the dead.
            SELECT FROM job AS j
            WHERE j.worker = r.id AND j.state = 'running' AND r.leased_until <= clock_timestamp()
            LIMIT 1001
        ) AS c
    ) AS j
    WHERE r.leased_until > clock_timestamp() - interval '1 hour' OR j.running > 0
    ORDER BY r.leased_until
    LIMIT 1000
)
SELECT
    CASE WHEN s.lease_left <= 0 THEN 'runner_dead' ELSE 'runner_late' END,
    CASE WHEN s.lease_left <= 0 AND s.running = 0 THEN 'notice' ELSE 'warning' END,
    format('runner %s (%s)', s.name, s.id),
    CASE
        WHEN s.lease_left <= 0 THEN format(
            'its lease ran out %s ago; it worked %s%s', _age_text(-s.lease_left), array_to_string(s.queues, ', '),
            CASE WHEN s.running > 0 THEN format('; it still has %s running', _jobs_text(s.running, 1000)) END
        )
        ELSE format(
            'its last heartbeat was %s ago and should come every %s; its lease ends in %s, then its jobs are rescued',
            _age_text(s.heartbeat_age), _age_text(s.lease / 4), _age_text(s.lease_left)
        )
    END,
    CASE
        WHEN s.lease_left <= 0 THEN 'See why it died or lost the database. Any live runner rescues its jobs within ten seconds of the end of its lease. The row is removed after a day'
        ELSE 'See whether its process is stopped, out of CPU or blocked by work that does not yield, or its connection to the database is slow. Runner::lease gives it more time'
    END,
    NULL, NULL, to_jsonb(s)
FROM seen AS s
-- A runner extends its lease four times a term: at more than half a term two heartbeats are missing.
WHERE s.lease_left <= 0 OR s.heartbeat_age > s.lease * 0.6
$$;
COMMENT ON FUNCTION _find_runners IS 'Finds runners that died, and those that miss heartbeats.';

CREATE FUNCTION _rate_text(count integer, period interval, burst integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN format(
        '%s/%s%s', count,
        CASE
            WHEN period < interval '1 min' THEN trim_scale(extract(epoch FROM period)::numeric) || 's'
            ELSE replace(_age_text(extract(epoch FROM period)::double precision), ' ', '')
        END,
        CASE WHEN burst <> count THEN ', burst ' || burst END
    );
COMMENT ON FUNCTION _rate_text IS 'A rate as the command shows it, such as 10/1m.';

CREATE FUNCTION _estimated_jobs(pages double precision) RETURNS TABLE (queue text, state text, jobs bigint)
    LANGUAGE sql STABLE
AS $$
-- The same pages each time, so that they stay cached. A table of fewer pages is counted.
WITH sampled (share) AS (
    SELECT least(1, pages * current_setting('block_size')::bigint / greatest(pg_relation_size('job'::regclass), 1))
)
SELECT j.queue, j.state::text, round(count(*) / (SELECT s.share FROM sampled AS s))::bigint
FROM job AS j TABLESAMPLE SYSTEM ((SELECT 100 * s.share FROM sampled AS s)) REPEATABLE (1)
GROUP BY j.queue, j.state
$$;
COMMENT ON FUNCTION _estimated_jobs IS 'The number of jobs by queue and state, estimated from about this many pages of the table.';

CREATE FUNCTION _find_queues(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
WITH counted AS MATERIALIZED (
    SELECT
        q.name, q.paused_at, q.held_until, q.max_running, q.rate_count, q.rate_period, q.rate_burst, q.runners, q.available,
        q.running, extract(epoch FROM q.oldest_available_age)::double precision AS oldest_age
    FROM queues(10000) AS q
    WHERE q.oldest_available_age IS NOT NULL
),
estimate AS MATERIALIZED (
    SELECT e.queue COLLATE "C" AS queue, e.jobs
    FROM (SELECT WHERE EXISTS (SELECT FROM counted AS c WHERE c.available > 10000)) AS beyond
    CROSS JOIN LATERAL _estimated_jobs(500) AS e
    WHERE e.state = 'available'
),
late AS MATERIALIZED (
    SELECT
        c.*,
        CASE
            WHEN c.paused_at IS NOT NULL THEN 'queue_paused'
            WHEN c.held_until IS NOT NULL THEN 'queue_held'
            WHEN c.runners = 0 THEN 'queue_unworked'
            ELSE 'queue_late'
        END AS code,
        _judge(c.oldest_age, thresholds -> 'waiting') AS severity,
        format(
            '%s available, the oldest for %s', _jobs_text(c.available, 10000, e.jobs), _age_text(c.oldest_age)
        ) AS waiting
    FROM counted AS c
    LEFT JOIN estimate AS e ON e.queue = c.name
),
-- Without a live runner one finding stands for all queues that need one.
unworked AS MATERIALIZED (
    SELECT
        count(*) AS queues, sum(least(l.available, 10000))::bigint AS available, bool_or(l.available > 10000) AS is_more,
        max(l.oldest_age) AS oldest_age, array_agg(l.name ORDER BY l.name COLLATE "C") AS names
    FROM late AS l
    WHERE l.code = 'queue_unworked' AND NOT EXISTS (SELECT FROM runner AS r WHERE r.leased_until > clock_timestamp())
    HAVING count(*) > 1
)
SELECT
    l.code,
    CASE
        -- A pause may be intended, and a rate that is used to the full is what it is for.
        WHEN l.code = 'queue_paused' THEN CASE WHEN l.severity IS NULL THEN 'notice' ELSE 'warning' END
        WHEN l.code = 'queue_held' THEN CASE WHEN l.held_until > clock_timestamp() + interval '1 h' THEN 'notice' END
        WHEN l.code = 'queue_unworked' THEN coalesce(l.severity, 'notice')
        WHEN l.rate_count IS NOT NULL THEN CASE l.severity WHEN 'critical' THEN 'warning' WHEN 'warning' THEN 'notice' END
        ELSE l.severity
    END,
    'queue ' || l.name,
    CASE l.code
        WHEN 'queue_paused' THEN 'it is paused, with ' || l.waiting
        WHEN 'queue_held' THEN format('it is held for another %s, with %s', _age_text(-_age(l.held_until)), l.waiting)
        WHEN 'queue_unworked' THEN 'no live runner works it, with ' || l.waiting
        ELSE format(
            '%s; %s it, %s running%s', l.waiting, _counted(l.runners, 'live runner works', 'live runners work'),
            _jobs_text(l.running, 10000),
            CASE
                WHEN l.rate_count IS NOT NULL
                    THEN ', under its rate of ' || _rate_text(l.rate_count, l.rate_period, l.rate_burst)
                WHEN l.running >= l.max_running THEN ', which is its limit'
                WHEN l.max_running IS NOT NULL THEN ' of its limit of ' || l.max_running
            END
        )
    END,
    CASE
        WHEN l.code = 'queue_paused' THEN 'Resume it, unless the pause is intended'
        WHEN l.code = 'queue_held' THEN 'End the hold, unless it is intended'
        WHEN l.code = 'queue_unworked' THEN 'Start the service whose runner works it'
        WHEN l.rate_count IS NOT NULL
            THEN 'Raise its rate, or remove it with none, if the service that it protects allows it'
        WHEN l.running >= l.max_running
            THEN 'Raise its limit, or remove it with null, if the service that it protects allows it'
        WHEN l.max_running IS NOT NULL THEN 'An open transaction that has changed the queue''s row blocks it: see blocking_transaction. Otherwise its runners have too few slots'
        ELSE 'Where all slots are busy, add runners or concurrency. Where they are not, see blocking_transaction and kind_unknown'
    END,
    CASE
        WHEN l.code IN ('queue_paused', 'queue_held') THEN _call('resume_queue', quote_literal(l.name))
        WHEN l.code = 'queue_late' AND l.rate_count IS NULL AND l.running >= l.max_running
            THEN _call('set_queue', quote_literal(l.name), quote_literal(jsonb_build_object('limit', 2 * l.max_running::bigint)))
    END,
    CASE
        WHEN l.code IN ('queue_paused', 'queue_held') THEN _command('queue resume', l.name)
        WHEN l.code = 'queue_unworked' THEN _command('job list --state available --queue', l.name)
        WHEN l.rate_count IS NOT NULL
            THEN _command('queue rate', l.name) || ' ' || _rate_text(2 * l.rate_count, l.rate_period, 2 * l.rate_count)
        WHEN l.running >= l.max_running THEN _command('queue limit', l.name) || ' ' || 2 * l.max_running::bigint
    END,
    to_jsonb(l)
FROM late AS l
WHERE l.code <> 'queue_unworked' OR NOT EXISTS (SELECT FROM unworked)
UNION ALL
SELECT
    'queue_unworked', coalesce(_judge(u.oldest_age, thresholds -> 'waiting'), 'notice'), 'schema ' || current_schema(),
    format(
        'no runner is alive, with %s available in queues %s%s, the oldest for %s',
        _jobs_text(u.available, CASE WHEN u.is_more THEN u.available - 1 END), array_to_string(u.names[:5], ', '),
        CASE WHEN u.queues > 5 THEN format(' and %s more', u.queues - 5) END, _age_text(u.oldest_age)
    ),
    'Start the services whose runners work these queues', NULL, _command('job list --state', 'available'),
    jsonb_build_object('queues', u.names)
FROM unworked AS u
$$;
COMMENT ON FUNCTION _find_queues IS 'Finds queues whose jobs wait for a runner, for too long, or for the end of a pause or hold.';

CREATE FUNCTION _find_queue_limits(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'queue_full', 'warning', 'queue ' || f.queue,
    format(
        CASE
            WHEN f.is_enforced THEN '%s of its jobs wait, which is its limit: inserts that add to them are refused'
            ELSE 'at most %s of its jobs may wait, and the trigger job_max_waiting, which refuses more, is missing or disabled'
        END,
        to_char(f.max_waiting, 'FM999,999,999,999')
    ),
    CASE
        WHEN f.is_enforced THEN 'Let more runners work it, or see why they are slow. Raise its limit, or remove it with null, if the jobs may wait'
        ELSE 'Remove the limit and set it again, as the owner of the tables, which creates the trigger'
    END,
    CASE
        WHEN f.is_enforced THEN f.raise
        ELSE concat_ws(
            chr(10), format('DROP TRIGGER IF EXISTS job_max_waiting ON %I.job;', current_schema()),
            _call('set_queue', quote_literal(f.queue), '''{"max_waiting": null}'''),
            _call('set_queue', quote_literal(f.queue), quote_literal(jsonb_build_object('max_waiting', f.max_waiting)))
        )
    END,
    CASE WHEN f.is_enforced THEN _command('queue max-waiting', f.queue) || ' ' || f.more END,
    to_jsonb(f)
FROM (
    SELECT
        q.name AS queue, q.max_waiting, w.waiting, e.is_enforced, m.more,
        _call('set_queue', quote_literal(q.name), quote_literal(jsonb_build_object('max_waiting', m.more))) AS raise
    FROM queue AS q
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (SELECT FROM _available_jobs(q.name, q.max_waiting) LIMIT q.max_waiting) AS c
    ) AS w
    CROSS JOIN LATERAL (SELECT least(2 * q.max_waiting::bigint, 2147483647) AS more) AS m
    CROSS JOIN (
        SELECT EXISTS (
            SELECT FROM pg_trigger AS t
            WHERE t.tgrelid = 'job'::regclass AND t.tgname = 'job_max_waiting' AND t.tgenabled IN ('O', 'A')
        ) AS is_enforced
    ) AS e
    WHERE q.max_waiting IS NOT NULL AND (w.waiting >= q.max_waiting OR NOT e.is_enforced)
    ORDER BY q.name
    LIMIT 100
) AS f
$$;
COMMENT ON FUNCTION _find_queue_limits IS 'Finds queues that have reached max_waiting, and limits that no trigger enforces.';

CREATE FUNCTION _find_groups(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- By queue and reason, with the group that has waited for longest. Only groups of queues that are not paused and that a live
-- runner works are named. A runner that does not report its kinds may know any.
WITH held AS (
    SELECT
        g.queue COLLATE "C" AS queue, g.group_key COLLATE "C" AS group_key, g.head, g.head_kind COLLATE "C" AS head_kind,
        g.held_by, _age(g.head_since) AS age,
        CASE
            -- A rate that is used to the full is what it is for, and a hold ends. One far ahead may be a mistake.
            WHEN g.held_code = 'group_held' THEN CASE WHEN g.held_until > clock_timestamp() + interval '1 h' THEN 'hold' END
            WHEN g.held_code IN ('queue_held', 'queue_rate', 'group_rate') THEN NULL
            WHEN g.held_code = 'group_began' THEN 'began'
            WHEN EXISTS (SELECT FROM _kind_obstacle(g.queue, g.head_kind)) THEN 'kind'
            WHEN g.held_code = 'group_limit' THEN 'limit'
        END COLLATE "C" AS reason
    FROM groups(look_at => 1000) AS g
    WHERE g.head IS NOT NULL
        AND NOT EXISTS (SELECT FROM queue AS q WHERE q.name = g.queue AND q.paused_at IS NOT NULL)
        AND EXISTS (SELECT FROM _live_runners(g.queue))
)
SELECT
    'group_held',
    CASE
        WHEN f.reason IN ('kind', 'began') THEN 'warning'
        -- A limit that is used to the full is what it is for.
        WHEN f.reason = 'limit' AND _judge(f.oldest_age, thresholds -> 'waiting') = 'critical' THEN 'warning'
        ELSE 'notice'
    END,
    'queue ' || f.queue,
    format(
        '%s waiting for up to %s, such as %s: %s',
        _counted(f.groups, 'group has its first job', 'groups have their first job'), _age_text(f.oldest_age), f.group_key,
        rtrim(f.held_by, '.')
    ),
    CASE f.reason
        WHEN 'kind' THEN 'Deploy a runner with a worker for the kind, or cancel the first jobs: they block their groups'
        WHEN 'began' THEN 'See why that job does not go on. Retry it now, release it, or cancel it, after which its group goes on'
        WHEN 'hold' THEN 'End the hold, unless it is intended: uniqueue queue resume with --group'
        ELSE 'Raise the limit of the group or of the queue''s groups, if what they protect allows it. Where its running jobs take too long, see job_slow and job_long'
    END,
    NULL, _command('queue groups', f.queue), to_jsonb(f)
FROM (
    SELECT DISTINCT ON (h.queue, h.reason, k.kind)
        h.queue, h.reason, h.group_key, h.head, h.head_kind,
        CASE h.reason
            WHEN 'kind' THEN _obstacle_reason('group_head', jsonb_build_object(
                'group', h.group_key, 'job', h.head, 'because', jsonb_build_object(
                    'code', 'kind_unknown', 'details', jsonb_build_object('queue', h.queue, 'kind', h.head_kind)
                )
            ))
            ELSE h.held_by
        END AS held_by,
        count(*) OVER (PARTITION BY h.queue, h.reason, k.kind) AS groups,
        h.age AS oldest_age
    FROM held AS h
    CROSS JOIN LATERAL (SELECT CASE h.reason WHEN 'kind' THEN h.head_kind END AS kind) AS k
    WHERE h.reason IS NOT NULL AND _judge(h.age, thresholds -> 'waiting') IS NOT NULL
    ORDER BY h.queue, h.reason, k.kind, h.age DESC, h.group_key
    LIMIT 100
) AS f
$$;
COMMENT ON FUNCTION _find_groups IS 'Finds groups whose first available job has waited for long, among 1,000 of each sort.';

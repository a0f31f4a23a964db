-- Checks of maintenance and periodic jobs, and of the place.

CREATE FUNCTION _find_maintenance(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- A service whose lease ran out three minutes ago, or that never had one, although runners live. Runners that wait for the lease
-- check it once a minute at the least.
SELECT
    CASE WHEN s.is_off THEN 'service_off' ELSE 'service_idle' END,
    CASE WHEN s.is_off AND s.name = 'reindexer' THEN 'notice' ELSE 'warning' END,
    'service ' || s.name,
    format(
        CASE
            WHEN s.is_off THEN 'it is switched off for all runners: %2$s'
            ELSE 'no runner has run it for %1$s, although runners are live: %2$s'
        END,
        _age_text(s.late_by), s.without
    ),
    CASE
        WHEN s.is_off THEN 'Switch it on again'
        ELSE 'See the runners'' logs: their maintenance may fail, or lack a privilege that the guide for operators lists for a worker'
    END,
    format(
        CASE
            WHEN s.is_off THEN 'UPDATE %I.maintenance SET leased_until = now() WHERE service = %L;'
            ELSE 'SELECT * FROM %I.maintenance WHERE service = %L;'
        END,
        current_schema(), s.name
    ),
    NULL, to_jsonb(s)
FROM (
    SELECT s.name, s.without, i.is_off, _age(coalesce(m.leased_until, o.started_at)) AS late_by
    FROM (
        VALUES
            ('expirer', 'expired jobs wait and keep their unique keys'), ('periodic', 'periodic jobs are not inserted'),
            ('promoter', 'scheduled and failed jobs do not become available'), ('pruner', 'final jobs are kept for ever'),
            ('reindexer', 'bloated indexes are not rebuilt'), ('releaser', 'jobs that wait for other jobs stay pending'),
            ('rescuer', 'the jobs of dead runners stay running')
    ) AS s (name, without)
    -- The first runner that gets a lease makes the row.
    LEFT JOIN maintenance AS m ON m.service = s.name
    CROSS JOIN LATERAL (
        SELECT m.leased_until IS NOT NULL AND m.holder IS NULL
            AND m.leased_until > clock_timestamp() + interval '1 day' AS is_off
    ) AS i
    CROSS JOIN LATERAL (
        -- Without a lease so far, the runner has offered the service since it started. Remote workers offer no periodic jobs.
        SELECT min(r.started_at) AS started_at
        FROM runner AS r
        WHERE r.leased_until > clock_timestamp() AND NOT (r.remote AND s.name = 'periodic')
    ) AS o
    WHERE i.is_off
        OR (
            coalesce(m.leased_until, '-infinity') <= clock_timestamp() - interval '3 min'
            AND o.started_at <= clock_timestamp() - interval '3 min'
            -- Not every runner offers it.
            AND s.name <> 'reindexer'
        )
) AS s
UNION ALL
SELECT
    'periodic_problem', CASE WHEN p.problem IS NULL THEN 'warning' ELSE 'critical' END, 'periodic job ' || p.name,
    CASE
        WHEN p.problem IS NOT NULL THEN 'its slots cannot be run: ' || p.problem
        WHEN p.is_unseen
            THEN format('no runner has read it in the %s since it was defined or resumed', _age_text(p.late_by))
        ELSE format('its slot passed %s ago, and no runner has run it', _age_text(p.late_by))
    END,
    'Correct its row, or its definition in the code. Start a runner where none is live',
    format('SELECT * FROM %I.periodic WHERE name = %L;', current_schema(), p.name), NULL, to_jsonb(p)
FROM (
    SELECT p.name, p.next_at IS NULL AS is_unseen, _age(w.since) AS late_by, p.problem
    FROM periodic AS p
    CROSS JOIN LATERAL (SELECT coalesce(p.next_at, greatest(p.starts_at, p.created_at)) AS since) AS w
    WHERE p.paused_at IS NULL AND (p.problem IS NOT NULL OR w.since <= clock_timestamp() - interval '3 min')
    ORDER BY p.name
    LIMIT 100
) AS p
$$;
COMMENT ON FUNCTION _find_maintenance IS 'Finds services that are off or that no runner runs, and periodic jobs that are not run.';

CREATE FUNCTION _find_schedules(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
WITH live AS MATERIALIZED (SELECT r.name, r.periodic FROM runner AS r WHERE r.leased_until > clock_timestamp()),
conflict AS (
    SELECT d.periodic AS name, count(*) AS definitions, array_agg(d.runner ORDER BY d.runner COLLATE "C") AS runners
    FROM (
        SELECT c.key COLLATE "C" AS periodic, c.value COLLATE "C" AS digest, min(l.name COLLATE "C") AS runner
        FROM live AS l
        CROSS JOIN LATERAL jsonb_each_text(l.periodic) AS c
        GROUP BY c.key COLLATE "C", c.value COLLATE "C"
    ) AS d
    GROUP BY d.periodic
    HAVING count(*) > 1
    ORDER BY d.periodic
    LIMIT 100
)
SELECT
    'periodic_conflict', 'warning', 'periodic job ' || c.name,
    format(
        'live runners have %s of it, such as %s; the one that started last counts',
        _counted(c.definitions, 'definition', 'definitions'), array_to_string(c.runners, ', ')
    ),
    'Give the schedules of different services different names. During a deployment that changes it, this passes',
    format('SELECT * FROM %I.periodic WHERE name = %L;', current_schema(), c.name), NULL, to_jsonb(c)
FROM conflict AS c
UNION ALL
SELECT
    'periodic_undefined', 'notice', 'periodic job ' || p.name,
    'it was defined in code, and no live runner defines it; its slots are still run',
    'Remove it if no code needs it any more, or start the runner that defines it',
    format('DELETE FROM %I.periodic WHERE name = %L;', current_schema(), p.name), _command('periodic remove', p.name), to_jsonb(p)
FROM (
    SELECT p.name
    FROM periodic AS p
    WHERE p.source = 'code'
        AND EXISTS (SELECT FROM live)
        AND NOT EXISTS (SELECT FROM live AS l WHERE l.periodic ? p.name)
    ORDER BY p.name
    LIMIT 100
) AS p
$$;
COMMENT ON FUNCTION _find_schedules IS 'Finds periodic jobs that live runners define differently, or that none defines any more.';

CREATE FUNCTION _find_place(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
SELECT
    'place_mismatch', 'critical', 'place ' || p.name,
    'this schema is a copy: the place was named in another database, and clients with a map refuse this one',
    'If no other server has the place any more, say that it is here; else leave this schema alone',
    format('SELECT %I.name_place(%L, adopt => true);', current_schema(), p.name), NULL,
    jsonb_build_object('place', p.name, 'database_id', p.database_id, 'found', _database_id())
FROM place AS p
WHERE place_is_copy()
$$;
COMMENT ON FUNCTION _find_place IS 'Finds out whether this schema is a copy of its place.';

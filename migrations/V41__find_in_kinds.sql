-- Checks of kinds.

CREATE FUNCTION _find_kinds(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- The runners take what is before and behind jobs of an unknown kind, so such jobs gather at the queue's head. Only queues that
-- a live runner works are looked at. A runner that does not report its kinds may know any.
SELECT
    'kind_unknown', CASE WHEN _judge(k.oldest_age, thresholds -> 'waiting') IS NULL THEN 'notice' ELSE 'warning' END,
    'kind ' || k.kind,
    format(
        '%s available in queue %s, the oldest for %s, and no live runner of the queue has a worker for the kind',
        _jobs_text(k.jobs), k.queue, _age_text(k.oldest_age)
    ),
    'Deploy a runner with a worker for it. If the kind was removed, cancel its jobs. If it is misspelt, insert them again',
    NULL, format('%s --kind %s --dry-run', _command('job cancel --queue', k.queue), _shell_word(k.kind)), to_jsonb(k)
FROM (
    SELECT a.queue, h.kind COLLATE "C" AS kind, count(*) AS jobs, _age(min(h.scheduled_at)) AS oldest_age
    FROM (SELECT a.queue COLLATE "C" AS queue FROM _available_queues() AS a (queue) LIMIT 1000) AS a
    CROSS JOIN LATERAL _available_jobs(a.queue, 1000) AS h
    WHERE EXISTS (SELECT FROM _live_runners(a.queue))
    GROUP BY a.queue, h.kind COLLATE "C"
) AS k
CROSS JOIN LATERAL _kind_obstacle(k.queue, k.kind)
ORDER BY k.queue, k.kind
LIMIT 100
$$;
COMMENT ON FUNCTION _find_kinds IS 'Finds kinds among 1,000 available jobs of each queue that no live runner of the queue works.';

CREATE FUNCTION _find_registered_kinds(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- What a live runner registered at its start, and the newest registration, count. The one before it counts while the runner of
-- that name is alive, and for an hour after it came back: then two processes register in turn.
SELECT
    'kind_conflict', 'warning', 'kind ' || o.name,
    format(
        '%s are registered, by %s; that of %s counts, since it is the newest',
        _counted(o.definitions, 'definition', 'definitions'), array_to_string(o.processes, ', '), o.counts
    ),
    'Inserts by SQL, by the command and in other languages may make other keys than the code does. Give the options of the kind to all services, or give each service a kind of its own. During a deployment that changes the kind this passes. If it stays, restart a runner of the newest version',
    format('SELECT * FROM %I.kind WHERE name = %L;', current_schema(), o.name), _command('kind show', o.name), to_jsonb(o)
FROM (
    SELECT DISTINCT ON (d.kind)
        d.kind AS name, count(*) AS definitions, array_agg(d.process ORDER BY d.process COLLATE "C") AS processes,
        max(k.registered_by) AS counts
    FROM (
        SELECT s.kind, m.digest COLLATE "C" AS digest, min(s.process COLLATE "C") AS process
        FROM (
            SELECT c.key COLLATE "C" AS kind, c.value COLLATE "C" AS digest, r.name AS process
            FROM runner AS r
            CROSS JOIN LATERAL jsonb_each_text(r.registered) AS c
            WHERE r.leased_until > clock_timestamp()
            UNION ALL
            SELECT k.name, k.digest, k.registered_by
            FROM kind AS k
            UNION ALL
            SELECT k.name, k.former_digest, k.former_by
            FROM kind AS k
            WHERE k.returned_at > clock_timestamp() - interval '1 hour'
                OR EXISTS (
                    SELECT FROM runner AS r
                    WHERE r.name = k.former_by AND r.name <> k.registered_by AND r.leased_until > clock_timestamp()
                        AND NOT r.registered ? k.name
                )
        ) AS s
        CROSS JOIN LATERAL string_to_table(s.digest, ' ') AS m (digest)
        GROUP BY s.kind, m.digest COLLATE "C"
    ) AS d
    INNER JOIN kind AS k ON k.name = d.kind
    GROUP BY d.kind, split_part(d.digest, '=', 1)
    HAVING count(*) > 1
    ORDER BY d.kind, count(*) DESC
    LIMIT 100
) AS o
$$;
COMMENT ON FUNCTION _find_registered_kinds IS 'Finds kinds of which live processes declare one default differently.';

CREATE FUNCTION _find_unregistered_jobs(thresholds jsonb) RETURNS SETOF finding
    LANGUAGE sql STABLE
AS $$
-- An insert that names only the kind, before any process registered it, puts its job without a key into the queue default. Such
-- a job is older than the first definition. A later one may change any default. Only a job that waits can still be mended.
WITH registered AS MATERIALIZED (
    SELECT
        k.name, coalesce(k.queue, 'default') COLLATE "C" AS queue, k.registered_by, k.created_at,
        coalesce((SELECT p.is_enforced FROM _read_unique_policy(k.unique_policy) AS p WHERE k.unique_policy IS NOT NULL), false) AS makes_key
    FROM kind AS k
    ORDER BY k.created_at DESC
    LIMIT 1000
),
head AS MATERIALIZED (
    SELECT w.id, w.kind COLLATE "C" AS kind, w.created_at
    FROM (SELECT 'default' COLLATE "C" AS queue UNION SELECT r.queue FROM registered AS r WHERE r.makes_key LIMIT 100) AS q
    CROSS JOIN LATERAL _available_jobs(q.queue, 1000) AS w
    UNION ALL
    SELECT w.id, w.kind, w.created_at FROM _waiting_and_discarded_jobs(1000) AS w WHERE w.state <> 'discarded'
)
SELECT
    'job_unregistered', 'warning', 'kind ' || u.kind,
    format(
        '%s in queue %s %s inserted before the kind was registered by %s: %s; such as %s',
        _counted(u.jobs, 'waiting job', 'waiting jobs'), u.queue, CASE u.jobs WHEN 1 THEN 'was' ELSE 'were' END, u.registered_by,
        concat_ws(
            ', ', CASE WHEN u.without_key > 0 THEN to_char(u.without_key, 'FM999,999') || ' without its unique key' END,
            CASE WHEN u.queue = 'default' AND u.own_queue <> 'default' THEN 'not in its queue ' || u.own_queue END
        ),
        u.job
    ),
    'No insert meets a job without a key as a duplicate, and only runners of its queue work it. Give the waiting jobs their keys with uniqueue unique backfill, or cancel them and insert them again. Register the kind before the first insert, with Client::register, register_kind or a runner',
    NULL, format('%s --queue %s', _command('job list --kind', u.kind), _shell_word(u.queue)), to_jsonb(u)
FROM (
    SELECT
        j.kind, j.queue, r.queue AS own_queue, r.registered_by, count(*) AS jobs,
        count(*) FILTER (WHERE r.makes_key AND j.unique_key IS NULL) AS without_key,
        (array_agg(j.id ORDER BY j.id))[1] AS job
    FROM head AS h
    JOIN registered AS r ON r.name = h.kind AND h.created_at < r.created_at
    JOIN job AS j ON j.id = h.id
    WHERE (r.makes_key AND j.unique_key IS NULL) OR (j.queue = 'default' AND r.queue <> 'default')
    GROUP BY j.kind, j.queue, r.queue, r.registered_by
    ORDER BY count(*) DESC, j.kind, j.queue
    LIMIT 100
) AS u
$$;
COMMENT ON FUNCTION _find_unregistered_jobs IS 'Finds waiting jobs that were inserted before their kind was registered, and so lack its unique key or wait in another queue. Reads the first 1,000 available jobs of each queue concerned, and the 1,000 that are due first.';

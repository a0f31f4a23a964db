-- Why a job has not started.

CREATE FUNCTION _group_levels(queue_name text) RETURNS TABLE (priority smallint)
    LANGUAGE sql STABLE ROWS 10
-- A function with settings cannot be inlined. Inlined, its scan stops when the calling statement has enough rows.
AS $$
-- One probe for each priority. A fetch looks no further.
WITH RECURSIVE level AS (
    SELECT 32768 AS priority, 0 AS place
    UNION ALL
    SELECT n.priority::integer, l.place + 1
    FROM level AS l
    CROSS JOIN LATERAL (
        SELECT j.priority
        FROM job AS j
        WHERE j.queue = queue_name AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority < l.priority
        ORDER BY j.priority DESC
        LIMIT 1
    ) AS n
    WHERE l.place < 1000
)
SELECT l.priority::smallint FROM level AS l WHERE l.place > 0
$$;
COMMENT ON FUNCTION _group_levels IS 'The priorities of the available jobs of groups of a queue, the highest first.';

CREATE FUNCTION _group_obstacles(queue_name text, group_key text, first_job uuid)
RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 1
AS $$
SELECT o.code, jsonb_build_object('queue', w.queue, 'group', w.name) || o.details
FROM (SELECT queue_name COLLATE "C" AS queue, group_key COLLATE "C" AS name) AS w
LEFT JOIN queue AS q ON q.name = w.queue
LEFT JOIN queue_group AS g ON g.queue = w.queue AND g.group_key = w.name
LEFT JOIN LATERAL (
    SELECT j.id, j.state, j.scheduled_at
    FROM job AS j
    WHERE j.queue = w.queue AND j.group_key = w.name AND j.group_key IS NOT NULL
        AND j.finalized_at IS NULL AND j.began IS NOT NULL AND j.state <> 'running'
    ORDER BY j.state = 'available' DESC, j.id
    LIMIT 1
) AS b ON true
-- The limit of the first job decides.
LEFT JOIN LATERAL (
    SELECT least(CASE WHEN j.in_order THEN 1 END, j.group_limit, q.max_per_group) AS most
    FROM job AS j
    WHERE j.id = first_job
    LIMIT 1
) AS f ON true
CROSS JOIN LATERAL (
    SELECT 'group_held', jsonb_build_object('until', g.held_until) WHERE g.held_until > statement_timestamp()
    UNION ALL
    SELECT 'group_rate', jsonb_build_object(
        'until', t.token_at, 'count', q.group_rate_count, 'period', trim_scale(extract(epoch FROM q.group_rate_period))
    )
    FROM (
        SELECT _next_token_at(q.group_rate_count, q.group_rate_period, q.group_rate_burst, g.rate_full_at) AS token_at
    ) AS t
    WHERE t.token_at > statement_timestamp()
    UNION ALL
    SELECT 'group_began', jsonb_strip_nulls(jsonb_build_object(
        'job', b.id, 'state', b.state, 'until', CASE WHEN b.state IN ('scheduled', 'retryable') THEN b.scheduled_at END
    ))
    WHERE b.id <> first_job
    UNION ALL
    SELECT 'group_limit', jsonb_build_object(
        'job', r.jobs[1], 'jobs', cardinality(r.jobs), 'limit', f.most, 'running', r.jobs[:10]
    )
    FROM (
        SELECT ARRAY(
            SELECT j.id
            FROM job AS j
            WHERE j.queue = w.queue AND j.group_key = w.name AND j.group_key IS NOT NULL
                AND j.finalized_at IS NULL AND j.state = 'running'
            LIMIT coalesce(f.most, 0)
        ) AS jobs
    ) AS r
    WHERE (b.id <> first_job) IS NOT TRUE AND cardinality(r.jobs) >= f.most
) AS o (code, details)
$$;
COMMENT ON FUNCTION _group_obstacles IS 'The obstacles that keep the first job of a group, and so the later ones, from starting.';

CREATE FUNCTION _own_obstacles(given_id uuid, given_queue text, given_kind text) RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 1
AS $$
SELECT o.code, o.details FROM _kind_obstacle(given_queue, given_kind) AS o
UNION ALL
SELECT o.code, o.details
FROM (SELECT j.id, j.crashes, _locker(j.xmax, 'job') AS locker FROM job AS j WHERE j.id = given_id LIMIT 1) AS j
CROSS JOIN LATERAL (
    SELECT 'suspect', jsonb_build_object('crashes', j.crashes) WHERE j.crashes > 0
    UNION ALL
    SELECT 'locked', jsonb_build_object('job', j.id) || j.locker WHERE j.locker IS NOT NULL
) AS o (code, details)
$$;
COMMENT ON FUNCTION _own_obstacles IS 'The obstacles of a job in any place of its queue: its kind, its crashes, a lock on its row.';

CREATE FUNCTION _jobs_before(
    given_id uuid, queue_name text, group_key text, given_priority smallint, due_at timestamptz, given_crashes smallint
) RETURNS bigint
    LANGUAGE plpgsql STABLE
AS $$
-- Each count is a range of an index.
BEGIN
    IF group_key IS NOT NULL THEN
        RETURN (
            SELECT count(*)
            FROM (
                SELECT
                FROM _group_levels(queue_name) AS l
                CROSS JOIN LATERAL (
                    SELECT
                    FROM job AS j
                    WHERE j.queue = queue_name AND j.group_key = _jobs_before.group_key COLLATE "C"
                        AND j.group_key IS NOT NULL AND j.state = 'available' AND j.priority = l.priority
                        AND (j.scheduled_at, j.id) < (
                            CASE WHEN l.priority = given_priority THEN due_at ELSE 'infinity' END, given_id
                        )
                    LIMIT 10001
                ) AS b
                WHERE l.priority >= given_priority
                LIMIT 10001
            ) AS c
        );
    ELSIF given_crashes > 0 THEN
        RETURN (
            SELECT count(*)
            FROM (
                SELECT s.id, s.crashes, s.priority, s.scheduled_at
                FROM job AS s
                WHERE s.queue = queue_name AND s.group_key IS NULL AND s.state = 'available' AND s.crashes > 0
                ORDER BY s.crashes, s.priority DESC, s.scheduled_at, s.id
                LIMIT 10001
            ) AS s
            WHERE (s.crashes, -s.priority::integer, s.scheduled_at, s.id)
                < (given_crashes, -given_priority::integer, due_at, given_id)
        );
    END IF;
    RETURN (
        SELECT count(*)
        FROM (
            (
                SELECT
                FROM job AS j
                WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available'
                    AND j.priority = given_priority AND (j.scheduled_at, j.id) < (due_at, given_id)
                LIMIT 10001
            )
            UNION ALL
            (
                SELECT
                FROM job AS j
                WHERE j.queue = queue_name AND j.group_key IS NULL AND j.state = 'available'
                    AND j.priority > given_priority
                LIMIT 10001
            )
            LIMIT 10001
        ) AS c
    );
END
$$;
COMMENT ON FUNCTION _jobs_before IS 'The number of available jobs that come before this job, counted to 10,001. Counts the jobs of its group if it has one, the suspects of its queue if it is one, and otherwise the jobs of its queue that have no group.';

CREATE FUNCTION _state_obstacle(given_id uuid) RETURNS TABLE (code text, details jsonb)
    LANGUAGE sql STABLE ROWS 1
-- A function with settings cannot be inlined into the statement that calls it.
BEGIN ATOMIC
    SELECT
        CASE
            WHEN j.finalized_at IS NOT NULL THEN 'final'
            WHEN j.state = 'running' AND r.leased_until >= statement_timestamp()
                AND (j.reserved_until >= statement_timestamp()) IS NOT FALSE THEN 'running'
            WHEN j.state = 'running' THEN 'runner_died'
            WHEN j.state IN ('scheduled', 'retryable') AND j.scheduled_at <= statement_timestamp() THEN 'not_promoted'
            WHEN e.parent IS NOT NULL THEN 'parents'
            ELSE j.state::text
        END,
        jsonb_build_object('job', j.id, 'state', j.state) || CASE
            WHEN j.finalized_at IS NOT NULL THEN jsonb_build_object('since', j.finalized_at)
            WHEN j.state = 'running' THEN jsonb_strip_nulls(jsonb_build_object(
                'since', j.attempted_at, 'attempt', j.attempt, 'runner', j.worker, 'runner_name', r.name,
                'until', least(r.leased_until, j.reserved_until)
            ))
            WHEN j.state IN ('scheduled', 'retryable') AND j.scheduled_at <= statement_timestamp() THEN jsonb_build_object(
                'since', j.scheduled_at,
                'has_runner', EXISTS (SELECT FROM runner AS l WHERE l.leased_until > statement_timestamp())
            )
            WHEN e.parent IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
                'parent', e.parent, 'parent_kind', e.kind, 'parent_state', e.state, 'is_refused', e.is_refused,
                'jobs', (
                    SELECT count(*)
                    FROM (SELECT FROM job_parent AS o WHERE o.child = j.id AND _is_open_edge(o.outcome) LIMIT 10001) AS o
                )
            ))
            WHEN j.state IN ('scheduled', 'retryable') THEN jsonb_build_object(
                'until', j.scheduled_at, 'attempt', least(j.attempt + 1, j.max_attempts), 'max_attempts', j.max_attempts
            )
            ELSE '{}'
        END
    FROM job AS j
    LEFT JOIN runner AS r ON r.id = j.worker
    LEFT JOIN LATERAL (
        SELECT o.parent, p.kind, p.state, o.refused_end = p.finalized_at AS is_refused
        FROM job_parent AS o
        LEFT JOIN job AS p ON p.id = o.parent
        WHERE j.state = 'pending' AND o.child = j.id AND _is_open_edge(o.outcome)
        LIMIT 1
    ) AS e ON true
    WHERE j.id = given_id AND j.state <> 'available';
END;
COMMENT ON FUNCTION _state_obstacle IS 'Why the state of a job keeps it from starting. No row for an available job.';

CREATE FUNCTION _place_obstacles(given_id uuid) RETURNS TABLE (code text, details jsonb)
    LANGUAGE plpgsql STABLE ROWS 2
AS $$
-- States of an available job: first of its line, where its own obstacles count; later in the line of its group, where it
-- waits for the first one and for what that waits for; later in the line of its queue; passed by, where runners have had
-- time for it and took later jobs or none.
DECLARE
    own record;
    first_job uuid;
    first_waits boolean := false;
    before bigint;
    passed CONSTANT interval := '1 minute';
BEGIN
    SELECT j.queue::text, j.kind::text, j.group_key::text, j.priority, j.scheduled_at, j.created_at, j.crashes, j.began
    INTO own
    FROM job AS j
    WHERE j.id = given_id;
    IF own.group_key IS NOT NULL THEN
        first_job := CASE
            WHEN own.began IS NOT NULL THEN given_id
            ELSE (
                SELECT f.id
                FROM _group_levels(own.queue) AS l
                CROSS JOIN LATERAL (
                    SELECT j.id
                    FROM job AS j
                    WHERE j.queue = own.queue AND j.group_key = own.group_key COLLATE "C" AND j.group_key IS NOT NULL
                        AND j.state = 'available' AND j.priority = l.priority
                    ORDER BY j.scheduled_at, j.id
                    LIMIT 1
                ) AS f
                LIMIT 1
            )
        END;
        RETURN QUERY SELECT o.code, o.details FROM _group_obstacles(own.queue, own.group_key, first_job) AS o;
        IF first_job <> given_id THEN
            RETURN QUERY
            SELECT 'group_head', jsonb_build_object(
                'queue', own.queue, 'group', own.group_key, 'job', first_job,
                'because', jsonb_build_object('code', o.code, 'details', o.details)
            )
            FROM job AS f
            CROSS JOIN LATERAL _own_obstacles(f.id, f.queue, f.kind) AS o
            WHERE f.id = first_job
            LIMIT 1;
        END IF;
    END IF;
    RETURN QUERY SELECT o.code, o.details FROM _slots_obstacle(own.queue, own.kind) AS o;
    before := _jobs_before(given_id, own.queue, own.group_key, own.priority, own.scheduled_at, own.crashes);
    -- Among the jobs that stuck_job looks at. Further back, a runner that is about to fetch would seem to have time.
    IF own.group_key IS NULL AND before < 100
        AND greatest(own.scheduled_at, own.created_at) < statement_timestamp() - passed
        -- Runners have free slots, or they started jobs that come after it.
        AND (
            _has_free_runner(own.queue, passed) OR EXISTS (
                SELECT FROM _lately_started(own.queue, passed) AS s
                WHERE s.priority < own.priority OR (s.priority = own.priority AND s.last_scheduled_at > own.scheduled_at)
            )
        )
    THEN
        RETURN QUERY SELECT 'not_taken', jsonb_build_object('queue', own.queue, 'kind', own.kind);
    ELSIF before > 0 AND own.began IS NULL THEN
        RETURN QUERY
        SELECT 'behind', jsonb_strip_nulls(jsonb_build_object('queue', own.queue, 'group', own.group_key, 'jobs', before));
    END IF;
END
$$;
COMMENT ON FUNCTION _place_obstacles IS 'The obstacles of an available job within its group and its queue, as codes and details.';

CREATE FUNCTION why_waiting(id uuid) RETURNS TABLE (code text, reason text, remedy text, details jsonb)
    LANGUAGE plpgsql STABLE ROWS 3
AS $$
DECLARE
    own record;
BEGIN
    SELECT j.queue::text, j.kind::text, j.state, j.scheduled_at, j.expires_at
    INTO own
    FROM job AS j
    WHERE j.id = why_waiting.id;
    IF NOT FOUND THEN
        RETURN;
    ELSIF _has_expired(own.expires_at, own.state, statement_timestamp()) THEN
        details := jsonb_build_object('job', why_waiting.id, 'since', own.expires_at);
        RETURN QUERY SELECT 'expired', _obstacle_reason('expired', details), _obstacle_remedy('expired', details), details;
        RETURN;
    END IF;
    RETURN QUERY
    WITH obstacle AS MATERIALIZED (
        SELECT o.code, o.details FROM _state_obstacle(why_waiting.id) AS o
        UNION ALL
        SELECT o.code, o.details
        FROM _queue_obstacles(
            own.queue, CASE own.state WHEN 'available' THEN NULL WHEN 'pending' THEN 'infinity' ELSE own.scheduled_at END
        ) AS o
        WHERE _is_waiting(own.state)
        UNION ALL
        SELECT o.code, o.details FROM _own_obstacles(why_waiting.id, own.queue, own.kind) AS o WHERE _is_waiting(own.state)
        UNION ALL
        SELECT o.code, o.details FROM _place_obstacles(why_waiting.id) AS o WHERE own.state = 'available'
    )
    SELECT n.code, _obstacle_reason(n.code, n.details), _obstacle_remedy(n.code, n.details), n.details
    FROM (
        SELECT o.code, o.details
        FROM obstacle AS o
        WHERE o.code <> 'not_taken' OR NOT EXISTS (SELECT FROM obstacle AS k WHERE k.code <> 'not_taken')
        UNION ALL
        SELECT 'next', '{}' WHERE NOT EXISTS (SELECT FROM obstacle)
        UNION ALL
        -- No obstacle, but how long the job will wait for those above.
        SELECT 'expires', jsonb_build_object('job', why_waiting.id, 'until', own.expires_at)
        WHERE own.expires_at IS NOT NULL AND _is_waiting(own.state)
    ) AS n
    ORDER BY array_position(_obstacle_codes(), n.code);
END
$$;
COMMENT ON FUNCTION why_waiting IS 'Why a job has not started: one row for each obstacle, in the order in which they end. remedy null: the obstacle ends by itself. A job that nothing holds up, that runs or that is final has one row that says so. A job that can expire has a last row that says when. No row: there is no such job. It locks nothing and reads a few index entries. Counts end at 10,000.';

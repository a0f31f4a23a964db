-- Maintenance: jobs that are due, jobs that were lost, and the leases by which one of many looks after them.
--
-- _run_service calls these functions, for runners and for maintain(). Each is right with any number of callers at once: a
-- lease spares work, and nothing more. The plans are made for each call. The calls are rare,
-- and a plan that was made for a small table is wrong for a large one.
--
-- While a backup is restored over a schema in use, its tables lack their keys. So what a runner inserts names the key of its
-- ON CONFLICT: without the key the insert fails, where ON CONFLICT DO NOTHING alone would insert a row twice.

CREATE FUNCTION _take_service(service_name text, holder_id uuid, holder_name text, term interval)
    RETURNS TABLE (is_held boolean, free_in bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM maintenance AS m WHERE m.service = service_name COLLATE "C") THEN
        INSERT INTO maintenance (service, holder, runner, taken_at, leased_until)
        VALUES (service_name, holder_id, holder_name, clock_timestamp(), clock_timestamp() + term)
        ON CONFLICT (service) DO NOTHING;
        is_held := FOUND;
    END IF;
    IF is_held IS NOT TRUE THEN
        WITH free AS (
            SELECT m.service
            FROM maintenance AS m
            WHERE m.service = service_name COLLATE "C"
                AND (
                    m.holder = holder_id OR m.leased_until <= clock_timestamp()
                    OR (m.holder IS NOT NULL AND m.taken_at > clock_timestamp())
                )
            FOR UPDATE SKIP LOCKED
        )
        UPDATE maintenance AS m
        SET holder = holder_id, runner = holder_name, taken_at = clock_timestamp(), leased_until = clock_timestamp() + term,
            -- A new holder sets sleeps itself.
            sleeps = m.sleeps AND m.holder IS NOT DISTINCT FROM holder_id
        FROM free AS f
        WHERE m.service = f.service;
        is_held := FOUND;
    END IF;
    -- Without its key the table can have a service twice.
    free_in := (SELECT -1000 * _age(min(m.leased_until)) FROM maintenance AS m WHERE m.service = service_name COLLATE "C");
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _take_service IS 'Takes or extends the lease of a maintenance service, if it is free or the caller''s. A lease that was taken in the future, before the clock went back, is free. A locked row counts as taken. Without the key of the table it inserts no row: error 42P10. is_held: whether the caller now has the lease. free_in: the milliseconds until the present lease ends, at most a year.';

CREATE FUNCTION _lock_due_jobs(service text, most bigint, since timestamptz, only_ids uuid[], except_ids uuid[])
    RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
AS $$
-- The statement's own time is a bound that the index can serve, which clock_timestamp() would not be.
DECLARE
    ids uuid[];
BEGIN
    CASE service COLLATE "C"
        WHEN 'promoter' THEN
            ids := ARRAY(
                SELECT j.id
                FROM job AS j
                WHERE j.state IN ('scheduled', 'retryable')
                    AND j.scheduled_at >= coalesce(since, '-infinity')
                    AND j.scheduled_at <= statement_timestamp()
                    AND (only_ids IS NULL OR j.id = ANY (only_ids)) AND j.id <> ALL (except_ids)
                ORDER BY j.scheduled_at
                LIMIT most
                FOR NO KEY UPDATE SKIP LOCKED
            );
        WHEN 'expirer' THEN
            ids := ARRAY(
                SELECT j.id
                FROM job AS j
                WHERE j.expires_at IS NOT NULL AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
                    AND j.expires_at <= statement_timestamp()
                    AND (only_ids IS NULL OR j.id = ANY (only_ids)) AND j.id <> ALL (except_ids)
                ORDER BY j.expires_at
                LIMIT most
                FOR NO KEY UPDATE SKIP LOCKED
            );
        WHEN 'rescuer' THEN
            ids := ARRAY(
                SELECT j.id
                FROM job AS j
                WHERE j.state = 'running'
                    AND (
                        j.reserved_until <= clock_timestamp()
                        OR NOT EXISTS (SELECT FROM runner AS r WHERE r.id = j.worker AND r.leased_until > clock_timestamp())
                    )
                    AND (only_ids IS NULL OR j.id = ANY (only_ids)) AND j.id <> ALL (except_ids)
                -- Before the jobs that were started after them are taken from the runner.
                ORDER BY j.crashes DESC
                LIMIT most
                FOR NO KEY UPDATE SKIP LOCKED
            );
        WHEN 'pruner' THEN
            ids := ARRAY(
                SELECT j.id
                FROM job AS j
                -- Asked of the row as it is when it is locked: it may have come back to life meanwhile.
                WHERE j.id = ANY (only_ids) AND j.id <> ALL (except_ids) AND j.finalized_at <= statement_timestamp()
                ORDER BY j.id
                FOR UPDATE SKIP LOCKED
            );
            -- Read after the locks: no insert can add a child of a locked job.
            IF EXISTS (SELECT FROM job_parent) THEN
                -- A child that is not final reads the outputs of its parents.
                ids := ARRAY(
                    SELECT i.id
                    FROM unnest(ids) AS i (id)
                    WHERE (
                        SELECT e.child
                        FROM job_parent AS e
                        CROSS JOIN LATERAL (SELECT FROM job AS j WHERE j.id = e.child AND j.finalized_at IS NULL LIMIT 1) AS c
                        WHERE e.parent = i.id
                        LIMIT 1
                    ) IS NULL
                );
            END IF;
    END CASE;
    RETURN ids;
END
$$;
COMMENT ON FUNCTION _lock_due_jobs IS 'Locks up to most jobs that a maintenance service would change now, and returns their ids. Skips locked jobs. since: the promoter looks only at jobs that were due at this time or later. Null: at all. only_ids: only these jobs. Null: any; the pruner needs them. Jobs that waiting children need are kept.';

CREATE FUNCTION _next_due_in(service text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN -1000 * _age(CASE service COLLATE "C"
        WHEN 'promoter' THEN (
            SELECT min(j.scheduled_at)
            FROM job AS j
            WHERE j.state IN ('scheduled', 'retryable') AND j.scheduled_at > statement_timestamp()
        )
        WHEN 'expirer' THEN (
            -- The first entry of the index. The planner may read all of them for min().
            SELECT j.expires_at
            FROM job AS j
            WHERE j.expires_at > statement_timestamp() AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
            ORDER BY j.expires_at
            LIMIT 1
        )
        WHEN 'rescuer' THEN (
            SELECT min(e.ends_at)
            FROM (
                SELECT r.leased_until FROM runner AS r
                UNION ALL
                SELECT j.reserved_until FROM job AS j WHERE j.state = 'running'
            ) AS e (ends_at)
            WHERE e.ends_at > clock_timestamp()
        )
    END);
END
$$;
COMMENT ON FUNCTION _next_due_in IS 'The milliseconds until the next job is due or expires, or a lease or a reservation ends. At most a year. Null: nothing is due.';

CREATE FUNCTION _discard_expired(INOUT ids uuid[])
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH changed AS (
        UPDATE job AS j
        SET state = 'discarded',
            finalized_at = clock_timestamp(),
            errors = _with_error(
                j.errors, j.attempt, clock_timestamp(),
                format('expired: the job had not started by %s', _time_text(j.expires_at::text)), '{"code": "expired"}'
            ),
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'discarded')
        WHERE j.id = ANY (ids) AND _not_by_partial_index(_has_expired(j.expires_at, j.state, clock_timestamp()))
        RETURNING j.id
    )
    SELECT coalesce(array_agg(c.id), '{}') INTO ids FROM changed AS c;
    PERFORM _settle(ids);
END
$$;
COMMENT ON FUNCTION _discard_expired IS 'Discards those of these jobs that have not started by their expires_at, and returns their ids.';

CREATE FUNCTION _rescue_jobs(ids uuid[], max_crashes integer)
    RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, error text, state text)
    LANGUAGE plpgsql VOLATILE
AS $$
-- Which of its jobs a dead runner had started is not known. So the first crash uses up no attempt. A crash as a suspect
-- does, but not the last one: the neighbour of a job that kills its process is innocent. From the second crash on a job
-- runs alone, for longer after each further crash. From the third on, the crash discards it where the runner had no other
-- job. Beside jobs that run for very long it is never alone. So from the sixth on, the crash also discards it where the
-- runner started no other job later, or within half a minute before it.
--
-- A job with one attempt was fetched to be started at once. It is not started again.
BEGIN
    RETURN QUERY
    WITH rescued AS (
        UPDATE job AS j
        SET (state, finalized_at, scheduled_at, attempt, crashes, expires_at, errors, unique_yielded) = (
            SELECT
                s.state,
                CASE WHEN s.is_over THEN clock_timestamp() END,
                CASE
                    WHEN s.is_over THEN j.scheduled_at
                    ELSE clock_timestamp() + interval '1 s' * power(5, least(s.crashes, 3) - 1)
                END,
                CASE
                    WHEN s.is_over THEN j.attempt
                    WHEN j.crashes = 0 THEN greatest(j.attempt - 1, 0)
                    ELSE greatest(least(j.attempt, j.max_attempts - 1), 0)
                END,
                s.crashes,
                -- A job that can expire is fetched only where a slot is free, so it had started.
                NULL::timestamptz,
                _with_error(
                    j.errors,
                    j.attempt,
                    clock_timestamp(),
                    CASE
                        WHEN j.reserved_until IS NULL THEN 'rescued: the runner died or lost its lease'
                        ELSE 'rescued: the worker died, or did not extend its reservation'
                    END || coalesce('; discarded: ' || s.reason, ''),
                    '{"code": "lost"}'
                ),
                j.unique_yielded OR _enters_claim(j.unique_states, 'running', s.state)
            FROM (
                SELECT
                    d.reason,
                    d.reason IS NOT NULL AS is_over,
                    CASE WHEN d.reason IS NULL THEN 'retryable' ELSE 'discarded' END::job_state AS state,
                    least(j.crashes + 1, 32767) AS crashes
                FROM (
                    SELECT
                        CASE
                            WHEN j.max_attempts = 1 THEN 'a job with one attempt is not started again'
                            WHEN j.crashes >= max_crashes - 1 AND NOT EXISTS (
                                SELECT FROM job AS o
                                WHERE o.state = 'running' AND o.worker = j.worker AND o.id <> j.id
                                    AND (j.crashes < max_crashes + 2 OR o.attempted_at > j.attempted_at - interval '30 s')
                            ) THEN format('its runner died %s times in a row while it had the job', j.crashes + 1)
                        END AS reason
                    OFFSET 0
                ) AS d
                OFFSET 0
            ) AS s
        )
        WHERE j.id = ANY (_rescue_jobs.ids)
        RETURNING
            j.id, j.kind, j.queue, j.state,
            (j.errors -> -1 ->> 'attempt')::smallint AS attempt, j.errors -> -1 ->> 'error' AS error
    ),
    settled AS MATERIALIZED (SELECT _settle(array_agg(r.id)) AS discarded FROM rescued AS r HAVING count(*) > 0)
    SELECT
        r.id, r.kind::text, r.queue::text, r.attempt, r.error,
        CASE WHEN r.id = ANY (s.discarded) THEN 'discarded' ELSE r.state::text END
    FROM rescued AS r
    CROSS JOIN settled AS s;
END
$$;
COMMENT ON FUNCTION _rescue_jobs IS 'Takes these jobs, which the caller has locked, from runners whose leases ran out and from remote workers whose reservations ran out. They come back as suspects, after a back-off. max_crashes: from how many crashes in a row on a job can be discarded. attempt: the attempt that was lost.';

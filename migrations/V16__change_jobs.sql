-- Changes of jobs by people: cancel, retry, release, reschedule, prioritize, delete.

CREATE TABLE change_log (
    id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    jobs bigint,
    actor text COLLATE "C" NOT NULL,
    verb text COLLATE "C" NOT NULL,
    subject jsonb NOT NULL,
    CONSTRAINT change_log_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE change_log IS
    'One row per change that was made in the name of an actor. The row is written in the transaction of the change. A change without an actor is not logged. The pruner deletes rows after 90 days.';
COMMENT ON COLUMN change_log.id IS 'UUIDv7: ids follow time.';
COMMENT ON COLUMN change_log.at IS 'When the change was made. For a change in batches, when the first batch was made.';
COMMENT ON COLUMN change_log.last_at IS 'When the last batch was made.';
COMMENT ON COLUMN change_log.jobs IS 'How many jobs were changed. Null: the change is not one of jobs.';
COMMENT ON COLUMN change_log.actor IS 'The name of the actor, as the caller gave it.';
COMMENT ON COLUMN change_log.verb IS 'The name of the change, such as cancel, retry or pause_queue.';
COMMENT ON COLUMN change_log.subject IS
    'What was changed: the first 100 ids, the filter, or the name of a queue, kind, key or periodic job with the new value.';
COMMENT ON CONSTRAINT change_log_pkey ON change_log IS 'One row per change. The latest changes have the highest ids.';

CREATE FUNCTION cancel_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT j.id, CASE WHEN j.state = 'running' THEN j.worker END AS worker
        FROM job AS j
        WHERE j.id = ANY (cancel_jobs.ids)
            AND (cancel_jobs.states IS NULL OR j.state = ANY (cancel_jobs.states::job_state[]))
            AND j.finalized_at IS NULL
        ORDER BY j.id
        FOR UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = 'cancelled',
            finalized_at = clock_timestamp(),
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'cancelled')
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded, w.worker
    ),
    settled AS MATERIALIZED (
        SELECT
            _take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            _tell_runners(array_agg(DISTINCT c.worker) FILTER (WHERE c.worker IS NOT NULL)) AS told
        FROM changed AS c
    )
    SELECT c.id, c.kind, c.queue, c.attempt, 'cancelled'
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION cancel_jobs(uuid[], text[]) IS
    'Cancels the jobs with these ids that are not final. With states, only jobs in one of these states. A running job is cancelled at once: its runner is notified, and the result of its worker is dropped. Returns one row per cancelled job.';

CREATE FUNCTION retry_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text, refused boolean, holder uuid)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT
            j.id, j.kind, j.queue, j.attempt, j.state,
            -- A final job is not rewritten into a discarded one.
            j.finalized_at IS NOT NULL
                AND j.discard_on_reentry
                AND j.unique_states & _state_bit('available') <> 0
                AND (j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'available'))
                AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp()) AS needs_claim
        FROM job AS j
        WHERE j.id = ANY (retry_jobs.ids)
            AND (retry_jobs.states IS NULL OR j.state = ANY (retry_jobs.states::job_state[]))
            AND j.state IN ('cancelled', 'completed', 'discarded', 'retryable', 'scheduled')
        ORDER BY j.id
        FOR UPDATE
    ),
    refused AS MATERIALIZED (
        SELECT r.id, r.holder
        FROM (SELECT array_agg(w.id) AS ids FROM wanted AS w WHERE w.needs_claim HAVING count(*) > 0) AS c
        CROSS JOIN LATERAL _retry_with_claims(c.ids) AS r
    ),
    changed AS (
        UPDATE job AS j
        SET state = 'available',
            scheduled_at = clock_timestamp(),
            finalized_at = NULL,
            max_attempts = greatest(j.max_attempts, least(j.attempt::integer + 1, 32767)),
            -- A job that was discarded for its crashes comes back as a suspect.
            crashes = least(j.crashes, 1),
            -- A final job has lost its place in its group.
            began = CASE WHEN j.finalized_at IS NULL THEN j.began END,
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'available')
        FROM wanted AS w
        WHERE j.id = w.id AND NOT w.needs_claim
        RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded
    ),
    -- Not joined with the changed rows: the planner expects one, and would compare each with each.
    outcome AS MATERIALIZED (
        SELECT
            c.id, c.kind, c.queue, c.attempt, NULL::job_state AS state, false AS refused, NULL::uuid AS holder,
            c.unique_yielded
        FROM changed AS c
        UNION ALL
        SELECT w.id, w.kind, w.queue, w.attempt, w.state, r.id IS NOT NULL, r.holder, NULL
        FROM wanted AS w
        LEFT JOIN refused AS r ON r.id = w.id
        WHERE w.needs_claim
    ),
    settled AS MATERIALIZED (
        SELECT
            _take_claims(array_agg(o.id) FILTER (WHERE o.unique_yielded)) AS discarded,
            _wake_runners(array_agg(DISTINCT o.queue) FILTER (WHERE NOT o.refused)) AS woken
        FROM outcome AS o
    )
    SELECT
        o.id, o.kind, o.queue, o.attempt,
        CASE
            WHEN o.refused THEN o.state::text
            WHEN o.id = ANY (s.discarded) THEN 'discarded'
            ELSE 'available'
        END,
        o.refused, o.holder
    FROM outcome AS o
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION retry_jobs(uuid[], text[]) IS
    'Makes the final and waiting jobs with these ids available, with at least one attempt left. With states, only jobs in one of these states. A job takes its claim back if its key is free, and otherwise goes on without it. If its policy says discard on re-entry, a waiting job is discarded, and a final job is refused and stays as it is. Notifies idle runners. Returns one row per job: its new state, whether it was refused, and the holder of its key. The holder is null if it belongs to an open transaction or if the time for waiting was used up.';

-- scheduled_at moves to now, so that the time as pending does not count as a wait for a runner.
CREATE FUNCTION release_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT
            j.id,
            CASE WHEN j.scheduled_at > clock_timestamp() THEN 'scheduled' ELSE 'available' END::job_state AS state
        FROM job AS j
        WHERE j.id = ANY (release_jobs.ids)
            AND (release_jobs.states IS NULL OR j.state = ANY (release_jobs.states::job_state[]))
            AND j.state = 'pending'
        ORDER BY j.id
        FOR UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = w.state,
            -- The wait for a runner begins now.
            scheduled_at = greatest(j.scheduled_at, clock_timestamp()),
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.unique_yielded
    ),
    settled AS MATERIALIZED (
        SELECT
            _take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            _wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.state = 'available')) AS woken
        FROM changed AS c
    )
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION release_jobs(uuid[], text[]) IS
    'Releases the pending jobs with these ids. With states, only jobs in one of these states. A job becomes available now, or scheduled if its time has not come. Notifies idle runners. Returns one row per job with its new state.';

CREATE FUNCTION reschedule_jobs(ids uuid[], scheduled_at timestamptz, states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT
            j.id,
            CASE
                WHEN j.state = 'pending' THEN 'pending'
                WHEN reschedule_jobs.scheduled_at <= clock_timestamp() THEN 'available'
                WHEN j.state = 'retryable' THEN 'retryable'
                ELSE 'scheduled'
            END::job_state AS state
        FROM job AS j
        WHERE j.id = ANY (reschedule_jobs.ids)
            AND (reschedule_jobs.states IS NULL OR j.state = ANY (reschedule_jobs.states::job_state[]))
            AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
            AND CASE
                WHEN reschedule_jobs.scheduled_at IS NULL THEN _refuse('invalid scheduled_at: must not be null')
                WHEN reschedule_jobs.scheduled_at < '0001-01-01 00:00:00+00'
                    OR reschedule_jobs.scheduled_at >= '9001-01-01 00:00:00+00' THEN
                    _refuse(format('invalid scheduled_at: must be in the years 1 to 9000: %s', reschedule_jobs.scheduled_at))
                ELSE true
            END
        ORDER BY j.id
        FOR UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = w.state,
            scheduled_at = reschedule_jobs.scheduled_at,
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.unique_yielded
    ),
    settled AS MATERIALIZED (
        SELECT
            _take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            _wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.state = 'available')) AS woken
        FROM changed AS c
    )
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION reschedule_jobs(uuid[], timestamptz, text[]) IS
    'Changes the time of the waiting jobs with these ids. With states, only jobs in one of these states. A job that is due becomes available at once. A pending job stays pending. Notifies idle runners. Returns one row per job with its new state. Error 22023 for a time that is null or outside the years 1 to 9000.';

CREATE FUNCTION set_priority(ids uuid[], priority integer, states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT j.id
        FROM job AS j
        WHERE j.id = ANY (set_priority.ids)
            AND (set_priority.states IS NULL OR j.state = ANY (set_priority.states::job_state[]))
            AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
            AND CASE
                WHEN set_priority.priority BETWEEN -32768 AND 32767 THEN true
                ELSE _refuse(format('invalid priority: must be -32768 to 32767: %s', coalesce(set_priority.priority::text, 'null')))
            END
        ORDER BY j.id
        FOR UPDATE
    )
    UPDATE job AS j
    -- Within its type's bounds for the planner as well, which casts before anything is refused.
    SET priority = greatest(-32768, least(set_priority.priority, 32767))
    FROM wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.kind, j.queue, j.attempt, j.state::text;
END;
COMMENT ON FUNCTION set_priority(uuid[], integer, text[]) IS
    'Changes the priority of the waiting jobs with these ids. With states, only jobs in one of these states. A higher priority runs first. Returns one row per job. Error 22023 for a priority that is null or outside -32768 to 32767.';

CREATE FUNCTION delete_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT j.id
        FROM job AS j
        WHERE j.id = ANY (delete_jobs.ids)
            AND (delete_jobs.states IS NULL OR j.state = ANY (delete_jobs.states::job_state[]))
            AND j.state <> 'running'
        ORDER BY j.id
        FOR UPDATE
    )
    DELETE FROM job AS j
    USING wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.kind, j.queue, j.attempt, j.state::text;
END;
COMMENT ON FUNCTION delete_jobs(uuid[], text[]) IS
    'Deletes the jobs with these ids that are not running. With states, only jobs in one of these states. The unique keys that they claimed are free. Returns one row per job with the state that it had.';

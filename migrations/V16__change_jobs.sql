-- Changes of jobs by people: cancel, discard, retry, release, reschedule, prioritize, delete.

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
COMMENT ON TABLE change_log IS 'One row per change that a program, the command or the dashboard made. The row is written in the transaction of the change. A change of queues, kinds or periodic jobs is logged if it has an actor, and so is an insert. The pruner deletes rows after 90 days.';
COMMENT ON COLUMN change_log.id IS 'UUIDv7: ids follow time.';
COMMENT ON COLUMN change_log.at IS 'When the change was made. For a change in batches, when the first batch was made.';
COMMENT ON COLUMN change_log.last_at IS 'When the last batch was made.';
COMMENT ON COLUMN change_log.jobs IS 'How many jobs were changed. Null: the change is not one of jobs.';
COMMENT ON COLUMN change_log.actor IS 'The name of the actor, as the caller gave it. anonymous: the caller gave none.';
COMMENT ON COLUMN change_log.verb IS 'The name of the change, such as cancel, retry or pause_queue.';
COMMENT ON COLUMN change_log.subject IS 'The first 100 ids, the filter, or the name of a queue, kind, key or periodic job with its new value.';

CREATE FUNCTION _log_change(id uuid, actor text, verb text, subject jsonb, jobs bigint) RETURNS void
    LANGUAGE sql VOLATILE
AS $$
    INSERT INTO change_log AS l (id, actor, verb, subject, jobs)
    VALUES (_log_change.id, _log_change.actor, _log_change.verb, _log_change.subject, _log_change.jobs)
    ON CONFLICT ON CONSTRAINT change_log_pkey DO UPDATE SET jobs = l.jobs + excluded.jobs, last_at = statement_timestamp()
$$;
COMMENT ON FUNCTION _log_change IS 'Logs a change, or adds to its number of jobs. jobs null: the change is not one of jobs.';

CREATE FUNCTION _end_jobs(ids uuid[], states text[], end_state job_state)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT j.id, CASE WHEN j.state = 'running' THEN j.worker END AS worker
        FROM job AS j
        WHERE j.id = ANY (_end_jobs.ids)
            AND (_end_jobs.states IS NULL OR j.state = ANY (_end_jobs.states::job_state[]))
            AND j.finalized_at IS NULL
        ORDER BY j.id
        FOR NO KEY UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = _end_jobs.end_state,
            finalized_at = clock_timestamp(),
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, _end_jobs.end_state),
            errors = CASE
                WHEN _end_jobs.end_state = 'discarded' THEN
                    _with_error(j.errors, j.attempt, clock_timestamp(), 'discarded by an operator', '{"code": "by_operator"}')
                ELSE j.errors
            END
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, w.worker
    ),
    settled AS MATERIALIZED (
        SELECT
            _settle(array_agg(c.id)) AS discarded,
            _tell_runners(array_agg(DISTINCT c.worker) FILTER (WHERE c.worker IS NOT NULL)) AS told
        FROM changed AS c
    )
    SELECT c.id, c.kind, c.queue, c.attempt, _end_jobs.end_state::text
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION _end_jobs IS 'Ends jobs that are not final, as cancel_jobs and discard_jobs describe.';

CREATE FUNCTION cancel_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT e.id, e.kind, e.queue, e.attempt, e.state FROM _end_jobs(cancel_jobs.ids, cancel_jobs.states, 'cancelled') AS e;
END;
COMMENT ON FUNCTION cancel_jobs IS 'Cancels the jobs with these ids that are not final. With states, only jobs in one of these states. A running job is cancelled at once: its runner is notified, and the result of its worker is dropped. Returns one row per cancelled job.';

CREATE FUNCTION discard_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT e.id, e.kind, e.queue, e.attempt, e.state FROM _end_jobs(discard_jobs.ids, discard_jobs.states, 'discarded') AS e;
END;
COMMENT ON FUNCTION discard_jobs IS 'Discards the jobs with these ids that are not final, as jobs that failed for good. With states, only jobs in one of these states. Each gets an error with the code by_operator. A running job is discarded at once: its runner is notified, and the result of its worker is dropped. Returns one row per discarded job.';

CREATE FUNCTION _cancelled_below(ids uuid[]) RETURNS uuid[]
    LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE below AS (
        SELECT g.id FROM unnest(_cancelled_below.ids) AS g (id)
        UNION
        SELECT c.id
        FROM below AS b
        -- A probe for each job, where the planner would read all edges.
        CROSS JOIN LATERAL (
            SELECT e.child
            FROM job_parent AS e
            WHERE e.parent = b.id AND e.outcome IS NOT NULL AND e.refused_end IS NOT NULL
            OFFSET 0
        ) AS e
        CROSS JOIN LATERAL (SELECT j.id FROM job AS j WHERE j.id = e.child AND j.state = 'cancelled' LIMIT 1) AS c
    )
    SELECT coalesce(array_agg(b.id), '{}') FROM below AS b WHERE b.id <> ALL (_cancelled_below.ids);
END;
COMMENT ON FUNCTION _cancelled_below IS 'The jobs that were cancelled because of the ends of these jobs, and that a retry of these reopens.';

CREATE FUNCTION retry_jobs(ids uuid[], states text[] DEFAULT NULL, afresh boolean DEFAULT false)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text, refused boolean, holder uuid)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    wanted uuid[];
    below uuid[] := '{}';
    more uuid[];
    limits smallint[];
    -- Those that come back to their unique states.
    returning_ids uuid[];
    -- Those that are refused without their claim: a final job is not rewritten into a discarded one.
    strict_ids uuid[];
    claiming uuid[];
    refused uuid[];
    yielding uuid[];
BEGIN
    -- The jobs below are read after the locks: while a job is locked, no other is cancelled because of it.
    LOOP
        wanted := ARRAY(
            SELECT j.id
            FROM job AS j
            WHERE j.id = ANY (retry_jobs.ids || below)
                AND CASE
                    WHEN j.id = ANY (below) THEN j.state = 'cancelled'
                    ELSE (retry_jobs.states IS NULL OR j.state = ANY (retry_jobs.states::job_state[]))
                        AND j.state IN ('cancelled', 'completed', 'discarded', 'retryable', 'scheduled')
                END
            ORDER BY j.id
            FOR NO KEY UPDATE
        );
        more := _cancelled_below(wanted);
        EXIT WHEN more = '{}';
        below := below || more;
    END LOOP;
    IF wanted = '{}' THEN
        RETURN;
    END IF;
    SELECT
        array_agg(w.id), array_agg(w.max_attempts), coalesce(array_agg(w.id) FILTER (WHERE w.returns), '{}'),
        coalesce(array_agg(w.id) FILTER (WHERE w.returns AND w.is_strict), '{}')
    INTO wanted, limits, returning_ids, strict_ids
    FROM (
        SELECT
            j.id, j.max_attempts,
            j.finalized_at IS NOT NULL AND j.discard_on_reentry AS is_strict,
            coalesce(
                j.unique_states & _state_bit('available') <> 0
                    AND (j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'available'))
                    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp()),
                false
            ) AS returns
        FROM job AS j
        WHERE j.id = ANY (wanted)
    ) AS w;
    claiming := _claim_free_keys(returning_ids, wanted);
    refused := ARRAY(SELECT s.id FROM unnest(strict_ids) AS s (id) WHERE (s.id = ANY (claiming)) IS NOT TRUE);
    IF cardinality(claiming) < cardinality(wanted) THEN
        yielding := ARRAY(SELECT w.id FROM unnest(wanted) AS w (id) WHERE (w.id = ANY (claiming || refused)) IS NOT TRUE);
        PERFORM _retry(yielding, false, wanted);
        -- Where the key is taken, the policy of a waiting job may discard it.
        PERFORM _take_claims(ARRAY(SELECT y.id FROM unnest(yielding) AS y (id) WHERE y.id = ANY (returning_ids)));
    END IF;
    IF afresh THEN
        -- Without the attempts that _retry added.
        UPDATE job AS j
        SET attempt = 0, max_attempts = w.max_attempts
        FROM unnest(wanted, limits) AS w (id, max_attempts)
        WHERE j.id = w.id AND j.state IN ('available', 'pending');
    END IF;
    PERFORM _wake_for(wanted) WHERE EXISTS (SELECT FROM runner AS r WHERE r.idle);
    PERFORM _wake_releaser() WHERE EXISTS (SELECT FROM job AS j WHERE j.id = ANY (wanted) AND j.state = 'pending');
    RETURN QUERY
    SELECT j.id, j.kind::text, j.queue::text, j.attempt::smallint, j.state::text, r.is_refused, h.id
    FROM job AS j
    CROSS JOIN LATERAL (SELECT (j.id = ANY (refused)) IS TRUE) AS r (is_refused)
    LEFT JOIN LATERAL (
        SELECT c.id FROM job AS c WHERE r.is_refused AND c.unique_key = j.unique_key AND c.claims LIMIT 1
    ) AS h ON true
    WHERE j.id = ANY (wanted);
END
$$;
COMMENT ON FUNCTION retry_jobs IS 'Makes final and waiting jobs available, with at least one attempt left, or with all of them (afresh). states: only jobs in these states. A job whose parents have not ended as it asks becomes pending, and so do the jobs that were cancelled because of it. A job whose key is taken goes on without it. If its policy says discard, it is discarded, or refused if it is final. Returns one row per job.';

CREATE FUNCTION _let_wait(ids uuid[], states text[], until timestamptz)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH wanted AS (
        SELECT
            j.id,
            -- The time as pending does not count as a wait for a runner.
            coalesce(_let_wait.until, greatest(j.scheduled_at, clock_timestamp())) AS scheduled_at,
            CASE
                WHEN j.state = 'pending' AND _let_wait.until IS NOT NULL THEN 'pending'
                WHEN coalesce(_let_wait.until, j.scheduled_at) <= clock_timestamp() THEN 'available'
                WHEN j.state = 'retryable' THEN 'retryable'
                ELSE 'scheduled'
            END::job_state AS state
        FROM job AS j
        WHERE j.id = ANY (_let_wait.ids)
            AND (_let_wait.states IS NULL OR j.state = ANY (_let_wait.states::job_state[]))
            AND j.state IN ('available', 'pending', 'retryable', 'scheduled')
            AND (j.state = 'pending' OR _let_wait.until IS NOT NULL)
        ORDER BY j.id
        FOR NO KEY UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = w.state,
            scheduled_at = w.scheduled_at,
            -- A pending job has not begun to expire by expires_in.
            expires_at = CASE
                WHEN j.state = 'pending' AND w.state <> 'pending'
                    THEN coalesce(j.expires_at, _length_after(w.scheduled_at, j.expires_in))
                ELSE j.expires_at
            END,
            unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state
    ),
    settled AS MATERIALIZED (SELECT _settle(array_agg(c.id)) AS discarded FROM changed AS c)
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION _let_wait IS 'Changes the time of jobs, as reschedule_jobs. until null: releases pending jobs, as release_jobs.';

CREATE FUNCTION release_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT w.id, w.kind, w.queue, w.attempt, w.state FROM _let_wait(release_jobs.ids, release_jobs.states, until => NULL) AS w;
END;
COMMENT ON FUNCTION release_jobs IS 'Releases the pending jobs with these ids. With states, only jobs in one of these states. A job becomes available now, or scheduled if its time has not come. Notifies idle runners. Returns one row per job with its new state.';

CREATE FUNCTION reschedule_jobs(ids uuid[], scheduled_at timestamptz, states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT w.id, w.kind, w.queue, w.attempt, w.state
    FROM _let_wait(
        reschedule_jobs.ids, reschedule_jobs.states,
        CASE WHEN _time_may_be(reschedule_jobs.scheduled_at) THEN reschedule_jobs.scheduled_at END
    ) AS w;
END;
COMMENT ON FUNCTION reschedule_jobs IS 'Changes the time of the waiting jobs with these ids. With states, only jobs in one of these states. A job that is due becomes available at once. A pending job stays pending. Notifies idle runners. Returns one row per job with its new state. Error 22023 for a time that is null or outside the years 1 to 9000.';

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
            AND _refuse(CASE
                WHEN (set_priority.priority BETWEEN -32768 AND 32767) IS NOT TRUE THEN
                    format('invalid priority: must be -32768 to 32767: %s', coalesce(set_priority.priority::text, 'null'))
            END)
        ORDER BY j.id
        FOR NO KEY UPDATE
    )
    UPDATE job AS j
    -- Within its type's bounds for the planner as well, which casts before anything is refused.
    SET priority = greatest(-32768, least(set_priority.priority, 32767))
    FROM wanted AS w
    WHERE j.id = w.id
    RETURNING j.id, j.kind, j.queue, j.attempt, j.state::text;
END;
COMMENT ON FUNCTION set_priority IS 'Changes the priority of the waiting jobs with these ids. With states, only jobs in one of these states. A higher priority runs first. Returns one row per job. Error 22023 for a priority that is null or outside -32768 to 32767.';

CREATE FUNCTION delete_jobs(ids uuid[], states text[] DEFAULT NULL)
RETURNS TABLE (id uuid, kind text, queue text, attempt smallint, state text)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    wanted uuid[];
    told record;
    last_child uuid;
    place integer := 1;
BEGIN
    -- The locks come first: no insert can add a child of a locked job.
    wanted := ARRAY(
        SELECT j.id
        FROM job AS j
        WHERE j.id = ANY (delete_jobs.ids)
            AND (delete_jobs.states IS NULL OR j.state = ANY (delete_jobs.states::job_state[]))
            AND j.state <> 'running'
        ORDER BY j.id
        FOR UPDATE
    );
    -- A deleted job is never retried, so the end that it has counts.
    UPDATE job_parent AS e
    SET refused_end = NULL
    WHERE e.parent = ANY (wanted) AND e.outcome IS NULL AND e.refused_end IS NOT NULL;
    LOOP
        SELECT t.* INTO told FROM _tell_children(wanted[place :], last_child, 1000) AS t;
        EXIT WHEN told.seen < 1000 AND told.moved < 1000;
        place := coalesce(array_position(wanted, told.last_parent), place);
        last_child := told.last_child;
    END LOOP;
    RETURN QUERY
    WITH deleted AS (
        DELETE FROM job AS j
        WHERE j.id = ANY (wanted)
            AND (SELECT o.child FROM job_parent AS o WHERE o.parent = j.id AND o.outcome IS NULL LIMIT 1) IS NULL
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state
    ),
    forgotten AS (DELETE FROM job_parent AS e WHERE e.child = ANY (ARRAY(SELECT d.id FROM deleted AS d)))
    SELECT d.id, d.kind::text, d.queue::text, d.attempt::smallint, d.state::text
    FROM deleted AS d;
END
$$;
COMMENT ON FUNCTION delete_jobs IS 'Deletes the jobs with these ids that are not running. With states, only jobs in one of these states. The unique keys that they claimed are free. The edges of their children get the final state as the outcome. A job that was not final counts as cancelled. If another transaction has locked a child, its parent is not deleted. Returns one row per deleted job with the state that it had.';

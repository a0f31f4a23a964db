-- Changing jobs and queues.

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
    'One row a change that was made with the name of an actor. It is written in the transaction of the change. A change without an actor is not logged. The pruner deletes rows after 90 days.';
COMMENT ON COLUMN change_log.id IS 'UUIDv7: ids follow time.';
COMMENT ON COLUMN change_log.at IS 'When the change, or its first batch, was made.';
COMMENT ON COLUMN change_log.last_at IS 'When the last batch was made.';
COMMENT ON COLUMN change_log.jobs IS 'How many jobs were changed; null: the change is not one of jobs.';
COMMENT ON COLUMN change_log.actor IS 'The name of the actor, as the caller gave it.';
COMMENT ON COLUMN change_log.verb IS 'The change, such as cancel, retry or pause_queue.';
COMMENT ON COLUMN change_log.subject IS
    'Its subject: the first 100 ids, the filter, or the name of a queue, a kind, a key or a periodic job, with the new value.';
COMMENT ON CONSTRAINT change_log_pkey ON change_log IS 'One row a change. The latest changes are at the end.';

-- Each object is defined once and whole. `doctor` takes from here the text of an object that was changed by hand.
CREATE FUNCTION take_claims(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '10ms'
    -- After five calls a session keeps the plans of a function, made for the table as it is then. For a small table that
    -- would be a scan.
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
    SET jit = off
AS $$
-- A job that comes back to its unique states has yielded its claim in the same statement. Here it takes the claim back if
-- the key is free.
--
-- First all keys are tried at once, of the first comer for each. Where that fails, since another transaction has one of
-- them, each key is tried in a subtransaction of its own, with a lock timeout of 10 ms. After 100 ms of timeouts in a batch
-- the limit is 1 ms, and after 300 ms the rest of the batch goes on without claims. Contested keys therefore never stop a
-- batch, a promotion or a queue.
--
-- The caller's rows stay locked meanwhile. An insert that holds a contested key and waits for one of those rows is in a
-- deadlock with this function. The function must end before deadlock_timeout (1 s) aborts that insert.
--
-- The holder is found by the key as a value, never by a join. A plan that was made and kept while few keys were claimed
-- can join by reading all claims.
DECLARE
    comer record;
    patience text := current_setting('lock_timeout');
    discarded uuid[] := '{}';
    is_taken boolean;
    began timestamptz;
    lost interval := '0';
    first_ids uuid[];
    keys text[];
BEGIN
    IF cardinality(ids) > 1 THEN
        SELECT array_agg(f.id), array_agg(f.unique_key)
        INTO first_ids, keys
        FROM (
            SELECT DISTINCT ON (j.unique_key) j.unique_key, j.id
            FROM job AS j
            WHERE j.id = ANY (ids)
                AND j.unique_yielded
                AND j.unique_states & state_bit(j.state) <> 0
                AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
            ORDER BY j.unique_key, j.id
        ) AS f;
        BEGIN
            UPDATE job AS expired
            SET unique_states = 0
            WHERE expired.unique_key = ANY (keys)
                AND expired.claims
                AND expired.unique_until <= clock_timestamp();
            UPDATE job AS j
            SET unique_yielded = false
            WHERE j.id = ANY (first_ids)
                -- A probe for each job: the planner would make a join with all claims of NOT EXISTS.
                AND (
                    SELECT holder.id FROM job AS holder WHERE holder.unique_key = j.unique_key AND holder.claims LIMIT 1
                ) IS NULL;
        EXCEPTION
            WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
                NULL;
        END;
    END IF;
    FOR comer IN
        SELECT j.id, j.unique_key, j.discard_on_reentry
        FROM job AS j
        WHERE j.id = ANY (ids)
            AND j.unique_yielded
            AND j.unique_states & state_bit(j.state) <> 0
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
            -- Where a job has the key, the others that go on without it are done.
            AND (
                j.discard_on_reentry
                OR NOT EXISTS (
                    SELECT FROM job AS holder
                    WHERE holder.unique_key = j.unique_key
                        AND holder.claims
                        AND (holder.unique_until IS NULL OR holder.unique_until > clock_timestamp())
                )
            )
        ORDER BY j.unique_key, j.id
    LOOP
        is_taken := false;
        IF lost <= interval '300 ms' THEN
            began := clock_timestamp();
            BEGIN
                UPDATE job AS expired
                SET unique_states = 0
                WHERE expired.unique_key = comer.unique_key
                    AND expired.claims
                    AND expired.unique_until <= clock_timestamp();
                UPDATE job AS j
                SET unique_yielded = false
                WHERE j.id = comer.id
                    AND j.unique_yielded
                    AND j.unique_states & state_bit(j.state) <> 0
                    AND NOT EXISTS (
                        SELECT FROM job AS holder
                        WHERE holder.unique_key = comer.unique_key AND holder.claims
                    );
                is_taken := FOUND;
            EXCEPTION
                WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
                    lost := lost + (clock_timestamp() - began);
                    IF lost > interval '100 ms' THEN
                        patience := '1ms';
                        PERFORM set_config('lock_timeout', patience, true);
                    END IF;
            END;
        END IF;
        IF NOT is_taken AND comer.discard_on_reentry THEN
            -- The caller has locked the row, so the update waits for no other lock on it. lock_timeout also counts the
            -- wait for the table's next page, and this update must not fail.
            PERFORM set_config('lock_timeout', '0', true);
            -- A job is discarded only for a committed holder. The transaction that won the key may still roll back.
            UPDATE job AS j
            SET state = 'discarded',
                finalized_at = clock_timestamp(),
                errors = with_error(
                    j.errors,
                    j.attempt,
                    clock_timestamp(),
                    -- Where the group's key is made of the same text, one job runs at a time, and the holder does the work.
                    CASE
                        WHEN j.unique_key IN (j.group_key, encode(sha256(convert_to(j.group_key, 'UTF8')), 'hex'))
                            THEN 'superseded: another job holds the unique key'
                        ELSE 'discarded on re-entry: another job holds the unique key'
                    END
                )
            WHERE j.id = comer.id
                AND j.unique_states & state_bit(j.state) <> 0
                AND j.state NOT IN ('completed', 'cancelled', 'discarded')
                AND EXISTS (
                    SELECT FROM job AS holder
                    WHERE holder.unique_key = comer.unique_key
                        AND holder.claims
                        AND holder.id <> comer.id
                        AND (holder.unique_until IS NULL OR holder.unique_until > clock_timestamp())
                );
            IF FOUND THEN
                discarded := discarded || comer.id;
            END IF;
            PERFORM set_config('lock_timeout', patience, true);
        END IF;
    END LOOP;
    RETURN discarded;
END
$$;
COMMENT ON FUNCTION take_claims(uuid[]) IS
    'Gives jobs that yielded their claim on re-entry their claim back where the key is free. The others go on without, or are discarded where their policy says so. Returns the ids of those it discarded.';

CREATE FUNCTION try_jobs(ids uuid[], worker uuid)
    RETURNS TABLE (id uuid, is_there boolean, is_locked boolean, bytes bigint, took double precision, code text, problem text)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- Not for the jobs' own rows: for what a trigger of the application locks.
    SET lock_timeout = '100ms'
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
    SET jit = off
AS $$
#variable_conflict use_column
-- A start that is undone at once, and so are its triggers. try_jobs names the job that fails. A fetch fails as a whole and
-- names none. The values are read, but none of more than a megabyte is made into text: that can take the server many
-- seconds in which nothing interrupts it.
DECLARE
    began timestamptz;
    stored bigint;
BEGIN
    FOREACH id IN ARRAY ids LOOP
        began := clock_timestamp();
        is_locked := false;
        bytes := NULL;
        stored := NULL;
        code := NULL;
        problem := NULL;
        BEGIN
            -- This reads none of the values that are stored apart from the row.
            SELECT pg_column_size(j.args) + pg_column_size(j.meta) + pg_column_size(j.errors)
                + coalesce(pg_column_size(j.output), 0) + coalesce(pg_column_size(j.progress), 0)
            INTO stored
            FROM job AS j
            WHERE j.id = try_jobs.id;
            SELECT sum(b.bytes)
            INTO bytes
            FROM job AS j
            CROSS JOIN LATERAL (VALUES (j.args), (j.meta::jsonb), (j.errors), (j.output), (j.progress)) AS v (value)
            -- What is stored in fewer bytes is not that large, compressed or not.
            CROSS JOIN LATERAL (
                SELECT CASE WHEN pg_column_size(v.value) >= 10000 THEN pg_column_size(jsonb_build_array(v.value)) END AS bytes
                OFFSET 0
            ) AS r
            CROSS JOIN LATERAL (
                SELECT CASE WHEN r.bytes >= 1000000 THEN r.bytes ELSE octet_length(v.value::text) END AS bytes
            ) AS b
            WHERE j.id = try_jobs.id AND j.state = 'available';
            is_there := bytes IS NOT NULL;
            IF is_there AND worker IS NOT NULL THEN
                PERFORM FROM job AS j
                WHERE j.id = try_jobs.id AND j.state = 'available'
                FOR NO KEY UPDATE SKIP LOCKED;
                is_locked := NOT FOUND;
            END IF;
            IF is_there AND worker IS NOT NULL AND NOT is_locked THEN
                SET CONSTRAINTS ALL IMMEDIATE;
                UPDATE job AS j
                SET state = 'running',
                    run = j.run % 2147483647 + 1,
                    attempt = least(j.attempt::integer + 1, 32767),
                    attempted_at = clock_timestamp(),
                    worker = try_jobs.worker,
                    began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
                    unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
                    unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, 'available', 'running')
                WHERE j.id = try_jobs.id;
                RAISE EXCEPTION USING ERRCODE = 'UQ001';
            END IF;
        EXCEPTION
            WHEN SQLSTATE 'UQ001' THEN
                NULL;
            WHEN query_canceled OR assert_failure OR others THEN
                is_there := true;
                code := sqlstate;
                problem := sqlerrm;
                -- So little is read in time wherever the storage answers.
                IF code = '57014' AND stored < 100000 THEN
                    bytes := coalesce(bytes, stored);
                END IF;
        END;
        took := extract(epoch FROM clock_timestamp() - began);
        RETURN NEXT;
        -- The statement's time is over, and its timeout does not come again.
        EXIT WHEN code = '57014';
    END LOOP;
END
$$;
COMMENT ON FUNCTION try_jobs(uuid[], uuid) IS
    'Tries one by one whether available jobs can be read and, for the worker, be started. Every trial is rolled back. Returns a row for each job that was tried. bytes: about the size of its values; null: they cannot be read. code and problem: the error of the database. Code 57014: the timeout of the statement came while this job was tried, and the jobs after it were not tried. worker null: the jobs are only read.';

CREATE FUNCTION release_claim(unique_key text) RETURNS uuid
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
AS $$
    UPDATE job AS j
    SET unique_states = 0
    WHERE j.unique_key = release_claim.unique_key COLLATE "C" AND j.claims
    RETURNING j.id
$$;
COMMENT ON FUNCTION release_claim(text) IS
    'For operators: the job that claims the key gives its claim up for good, and otherwise stays as it is. Answers with its id, also where the claim had expired already; null where no job has it.';

CREATE FUNCTION refuse(problem text) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RAISE invalid_parameter_value USING MESSAGE = problem;
END
$$;
COMMENT ON FUNCTION refuse(text) IS 'Fails with error 22023 and this message: for arguments outside their limits.';

CREATE FUNCTION queue_may_be(queue_name text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN queue_name IS NULL THEN refuse('invalid queue: must not be null')
        WHEN queue_name = '' THEN refuse('invalid queue: must not be empty: ""')
        WHEN octet_length(queue_name) > 128 THEN
            refuse(format('invalid queue: must not be longer than 128 bytes: %s', to_json(queue_name)))
        WHEN queue_name COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
            refuse(format('invalid queue: must not hold control characters: %s', to_json(queue_name)))
        ELSE true
    END;
COMMENT ON FUNCTION queue_may_be(text) IS 'True for what can be a queue''s name; error 22023 for anything else, as in insert_job.';

CREATE FUNCTION limit_may_be(name text, given integer) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN given < 1 THEN
            refuse(format('invalid %s: must be at least 1; to run nothing, pause the queue: %s', name, given))
        ELSE true
    END;
COMMENT ON FUNCTION limit_may_be(text, integer) IS
    'True for what can be a limit of running jobs, or none; error 22023 for anything else, which names the column.';

CREATE FUNCTION rate_may_be(rate_count integer, period interval, burst integer) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN rate_count IS NULL THEN
            num_nonnulls(period, burst) = 0 OR refuse(format('invalid rate: has no count: %s', coalesce(period::text, burst::text)))
        WHEN rate_count NOT BETWEEN 1 AND 1000000 THEN
            refuse(format('invalid rate: count must be 1 to 1000000; to run nothing, pause the queue: %s', rate_count))
        WHEN (period BETWEEN interval '1 ms' AND interval '31 days') IS NOT TRUE THEN
            refuse(format('invalid rate: period must be 1 ms to 31 days: %s', coalesce(period::text, 'null')))
        WHEN burst NOT BETWEEN 1 AND 1000000 THEN
            refuse(format('invalid rate: burst must be 1 to 1000000: %s', burst))
        ELSE true
    END;
COMMENT ON FUNCTION rate_may_be(integer, interval, integer) IS 'True for what can be a rate, or none; error 22023 for anything else.';

CREATE FUNCTION hold_may_be(hold_for interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN (hold_for BETWEEN interval '0' AND interval '365250 days') IS NOT TRUE THEN
            refuse(format('invalid hold: must be 0 to 1000 years: %s', coalesce(hold_for::text, 'null')))
        ELSE true
    END;
COMMENT ON FUNCTION hold_may_be(interval) IS 'True for how long a queue or a group can be held; error 22023 for anything else.';

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
            unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, j.state, 'cancelled')
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.unique_yielded, w.worker
    ),
    settled AS MATERIALIZED (
        SELECT
            take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            tell_runners(array_agg(DISTINCT c.worker) FILTER (WHERE c.worker IS NOT NULL)) AS told
        FROM changed AS c
    )
    SELECT c.id, c.kind, c.queue, c.attempt, 'cancelled'
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION cancel_jobs(uuid[], text[]) IS
    'Cancels jobs that are not final, of those with these ids; with states only those in one of them. A running one is over at once as well: its worker''s result will be stale, and its runner is told. Answers with a row a job that was cancelled.';

CREATE FUNCTION retry_with_claims(ids uuid[]) RETURNS TABLE (id uuid, holder uuid)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in take_claims, with the same limits.
    SET lock_timeout = '10ms'
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
    SET jit = off
AS $$
#variable_conflict use_column
-- Each job is tried in a subtransaction of its own, in which it takes its key and becomes available at once. So a job
-- whose key is taken is left exactly as it was, even where the key is taken in this moment.
DECLARE
    comer record;
    began timestamptz;
    lost interval := '0';
BEGIN
    FOR comer IN
        SELECT j.id, j.unique_key FROM job AS j WHERE j.id = ANY (ids) ORDER BY j.unique_key, j.id
    LOOP
        began := clock_timestamp();
        BEGIN
            IF lost > interval '300 ms' THEN
                RAISE lock_not_available;
            END IF;
            UPDATE job AS expired
            SET unique_states = 0
            WHERE expired.unique_key = comer.unique_key
                AND expired.claims
                AND expired.unique_until <= clock_timestamp();
            UPDATE job AS j
            SET state = 'available',
                scheduled_at = clock_timestamp(),
                finalized_at = NULL,
                max_attempts = greatest(j.max_attempts, least(j.attempt::integer + 1, 32767)),
                crashes = least(j.crashes, 1),
                began = NULL,
                unique_yielded = false
            WHERE j.id = comer.id
                AND NOT EXISTS (
                    SELECT FROM job AS h WHERE h.unique_key = comer.unique_key AND h.claims AND h.id <> comer.id
                );
            IF NOT FOUND THEN
                RAISE unique_violation;
            END IF;
        EXCEPTION
            WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
                -- A holder that has committed costs no waiting.
                IF sqlstate <> '23505' OR clock_timestamp() - began > interval '2 ms' THEN
                    lost := lost + (clock_timestamp() - began);
                END IF;
                id := comer.id;
                holder := (
                    SELECT h.id FROM job AS h WHERE h.unique_key = comer.unique_key AND h.claims AND h.id <> comer.id
                );
                RETURN NEXT;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION retry_with_claims(uuid[]) IS
    'Makes final jobs available that discard themselves on re-entry, each with its claim or not at all. Answers with a row for each that was refused, and the job that holds its key; null: that is in another transaction which is still open, or the time for waiting was used up.';

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
                AND j.unique_states & state_bit('available') <> 0
                AND (j.unique_yielded OR enters_claim(j.unique_states, j.state, 'available'))
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
        CROSS JOIN LATERAL retry_with_claims(c.ids) AS r
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
            unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, j.state, 'available')
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
            take_claims(array_agg(o.id) FILTER (WHERE o.unique_yielded)) AS discarded,
            wake_runners(array_agg(DISTINCT o.queue) FILTER (WHERE NOT o.refused)) AS woken
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
    'Makes final and waiting jobs available at once, with at least one attempt left, of those with these ids; with states only those in one of them. A job that comes back takes its claim back where the key is free; else it goes on without. Where its policy discards it then, a waiting job is discarded, and a final one refused: it stays as it is. Wakes runners. Answers with a row a job: its state since, whether it was refused, and the holder of its key then (null: an open transaction''s, or the time for waiting was used up).';

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
            unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.unique_yielded
    ),
    settled AS MATERIALIZED (
        SELECT
            take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.state = 'available')) AS woken
        FROM changed AS c
    )
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION release_jobs(uuid[], text[]) IS
    'Lets pending jobs go, of those with these ids: available and due now, or scheduled where their time has not come. states: only those in one of them. Wakes runners. Answers with a row a job, and the state that it is in since.';

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
                WHEN reschedule_jobs.scheduled_at IS NULL THEN refuse('invalid scheduled_at: must not be null')
                WHEN reschedule_jobs.scheduled_at < '0001-01-01 00:00:00+00'
                    OR reschedule_jobs.scheduled_at >= '9001-01-01 00:00:00+00' THEN
                    refuse(format('invalid scheduled_at: must be in the years 1 to 9000: %s', reschedule_jobs.scheduled_at))
                ELSE true
            END
        ORDER BY j.id
        FOR UPDATE
    ),
    changed AS (
        UPDATE job AS j
        SET state = w.state,
            scheduled_at = reschedule_jobs.scheduled_at,
            unique_yielded = j.unique_yielded OR enters_claim(j.unique_states, j.state, w.state)
        FROM wanted AS w
        WHERE j.id = w.id
        RETURNING j.id, j.kind, j.queue, j.attempt, j.state, j.unique_yielded
    ),
    settled AS MATERIALIZED (
        SELECT
            take_claims(array_agg(c.id) FILTER (WHERE c.unique_yielded)) AS discarded,
            wake_runners(array_agg(DISTINCT c.queue) FILTER (WHERE c.state = 'available')) AS woken
        FROM changed AS c
    )
    SELECT
        c.id, c.kind, c.queue, c.attempt,
        CASE WHEN c.id = ANY (s.discarded) THEN 'discarded' ELSE c.state::text END
    FROM changed AS c
    CROSS JOIN settled AS s;
END;
COMMENT ON FUNCTION reschedule_jobs(uuid[], timestamptz, text[]) IS
    'Gives waiting jobs another time, of those with these ids; with states only those in one of them. Those that are due become available at once and wake runners, the others wait; pending ones stay pending. Answers with a row a job, and the state that it is in since. Error 22023 for a time that is null or outside the years 1 to 9000.';

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
                ELSE refuse(format('invalid priority: must be -32768 to 32767: %s', coalesce(set_priority.priority::text, 'null')))
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
    'Gives waiting jobs another priority, of those with these ids; with states only those in one of them. Higher runs first. Answers with a row a job. Error 22023 for a priority that is null or outside -32768 to 32767.';

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
    'Deletes jobs that no worker has, of those with these ids; with states only those in one of them. Whatever they claimed is free. Answers with a row a job, and the state that it was in.';

CREATE FUNCTION pause_queue(queue_name text)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, paused_at)
    SELECT pause_queue.queue_name, clock_timestamp() WHERE queue_may_be(pause_queue.queue_name)
    ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(q.paused_at, excluded.paused_at)
    RETURNING q.name, q.paused_at, q.max_running;
END;
COMMENT ON FUNCTION pause_queue(text) IS
    'Pauses a queue everywhere: no runner fetches from it any more, and what runs is finished. Already paused, it stays paused since then. The queue need not have jobs. Answers with how it is set.';

CREATE FUNCTION resume_queue(queue_name text)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH resumed AS (
        UPDATE queue AS q
        SET paused_at = NULL, held_at = NULL, held_until = NULL
        WHERE q.name = resume_queue.queue_name AND (q.paused_at IS NOT NULL OR q.held_until > clock_timestamp())
        RETURNING q.name, q.paused_at, q.max_running, wake_runners(ARRAY[q.name]) AS woken
    )
    SELECT r.name, r.paused_at, r.max_running FROM resumed AS r;
END;
COMMENT ON FUNCTION resume_queue(text) IS
    'Lets a queue that is paused or held go on, and wakes runners that sleep. Holds of its groups stay. Answers with how it is set; no row where it was neither.';

CREATE FUNCTION limit_queue(queue_name text, max_running integer)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH limited AS (
        INSERT INTO queue AS q (name, max_running)
        SELECT limit_queue.queue_name, limit_queue.max_running
        WHERE queue_may_be(limit_queue.queue_name) AND limit_may_be('max_running', limit_queue.max_running)
        ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running
        RETURNING q.name, q.paused_at, q.max_running, wake_runners(ARRAY[q.name]) AS woken
    )
    SELECT l.name, l.paused_at, l.max_running FROM limited AS l;
END;
COMMENT ON FUNCTION limit_queue(text, integer) IS
    'Limits how many of a queue''s jobs run at once, over all runners; null: no limit. Wakes runners that sleep, as there may be room. Answers with how the queue is set. Error 22023 for less than 1.';

CREATE FUNCTION apply_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    -- Longer than a fetch waits for the queue's row, which this transaction has locked.
    SET lock_timeout = '300ms'
AS $$
-- The table job has the trigger job_max_waiting only while a queue has a limit, so that inserts pay nothing for a limit that
-- no queue has.
--
-- To create or drop the trigger, the transaction needs the table job without open writers, and other sessions cannot write
-- to it until this transaction ends. The function waits in short tries, since inserts queue up behind each of them.
DECLARE
    tries integer := 0;
    is_wanted boolean;
    is_there boolean;
BEGIN
    -- A limit that only moves needs no change.
    IF num_nonnulls(OLD.max_waiting, NEW.max_waiting) <> 1 THEN
        RETURN NULL;
    END IF;
    LOOP
        tries := tries + 1;
        BEGIN
            -- One change after another, each of which sees what the one before it committed.
            PERFORM pg_advisory_xact_lock(hashtext('uniqueue.max_waiting'), to_regclass('job')::oid::integer);
            is_wanted := EXISTS (SELECT FROM queue AS q WHERE q.max_waiting IS NOT NULL);
            is_there := EXISTS (
                SELECT FROM pg_trigger AS t WHERE t.tgrelid = to_regclass('job') AND t.tgname = 'job_max_waiting'
            );
            IF is_wanted AND NOT is_there THEN
                CREATE TRIGGER job_max_waiting
                    AFTER INSERT ON job
                    REFERENCING NEW TABLE AS entered
                    FOR EACH STATEMENT EXECUTE FUNCTION refuse_beyond_max_waiting();
                COMMENT ON TRIGGER job_max_waiting ON job IS
                    'Refuses inserts beyond queue.max_waiting. It exists while a queue has such a limit.';
            ELSIF is_there AND NOT is_wanted THEN
                DROP TRIGGER job_max_waiting ON job;
            END IF;
            RETURN NULL;
        EXCEPTION
            WHEN lock_not_available THEN
                IF tries >= 15 THEN
                    RAISE lock_not_available USING
                        MESSAGE = 'cannot set max_waiting of a queue while other transactions write to table job',
                        HINT = 'Try again when no transaction that has inserted or changed jobs is open for long.';
                END IF;
                PERFORM pg_sleep(0.02 * tries);
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION apply_max_waiting() IS
    'Creates the trigger job_max_waiting when the first queue gets a max_waiting, and drops it when the last one is removed. Waits up to 7 s for open transactions that write to job; error 55P03 after that. With the rights of the schema''s owner, who owns the table.';
REVOKE EXECUTE ON FUNCTION apply_max_waiting() FROM PUBLIC;

CREATE TRIGGER queue_max_waiting
    AFTER INSERT OR UPDATE OF max_waiting OR DELETE ON queue
    FOR EACH ROW EXECUTE FUNCTION apply_max_waiting();
COMMENT ON TRIGGER queue_max_waiting ON queue IS 'Keeps the trigger job_max_waiting as long as a queue needs it.';

CREATE FUNCTION limit_waiting(queue_name text, max_waiting integer)
RETURNS TABLE (name text, paused_at timestamptz, max_waiting integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, max_waiting)
    SELECT limit_waiting.queue_name, limit_waiting.max_waiting
    WHERE queue_may_be(limit_waiting.queue_name) AND CASE
        WHEN limit_waiting.max_waiting < 1 THEN
            refuse(format('invalid max_waiting: must be at least 1: %s', limit_waiting.max_waiting))
        ELSE true
    END
    ON CONFLICT (name) DO UPDATE SET max_waiting = excluded.max_waiting
    RETURNING q.name, q.paused_at, q.max_waiting;
END;
COMMENT ON FUNCTION limit_waiting(text, integer) IS
    'Limits how many available jobs a queue may have; null: any number. An insert that would exceed the limit is error UQ003. Scheduled, retryable and pending jobs do not count, and what makes them available is never refused; nor is a periodic job. Jobs that wait already stay. The first limit, and removing the last one, wait up to 7 s for open transactions that write to job (error 55P03), and inserts wait until this transaction ends. Answers with how the queue is set. Error 22023 for less than 1.';

CREATE FUNCTION limit_groups(queue_name text, max_per_group integer)
RETURNS TABLE (name text, paused_at timestamptz, max_per_group integer, fair boolean)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH limited AS (
        INSERT INTO queue AS q (name, max_per_group)
        SELECT limit_groups.queue_name, limit_groups.max_per_group
        WHERE queue_may_be(limit_groups.queue_name) AND limit_may_be('max_per_group', limit_groups.max_per_group)
        ON CONFLICT (name) DO UPDATE SET max_per_group = excluded.max_per_group
        RETURNING q.name, q.paused_at, q.max_per_group, q.fair, wake_runners(ARRAY[q.name]) AS woken
    )
    SELECT l.name, l.paused_at, l.max_per_group, l.fair FROM limited AS l;
END;
COMMENT ON FUNCTION limit_groups(text, integer) IS
    'Limits how many jobs of each group of a queue run at once, over all runners; null: as many as the jobs themselves allow. The lower of this and a job''s own group_limit counts. What runs already is finished. Wakes runners that sleep. Answers with how the queue is set. Error 22023 for less than 1.';

CREATE FUNCTION rate_queue(queue_name text, rate_count integer, period interval DEFAULT NULL, burst integer DEFAULT NULL)
RETURNS TABLE (name text, paused_at timestamptz, rate_count integer, rate_period interval, rate_burst integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH rated AS (
        INSERT INTO queue AS q (name, rate_count, rate_period, rate_burst)
        SELECT $1, $2, $3, coalesce($4, $2)
        WHERE queue_may_be($1) AND rate_may_be($2, $3, $4)
        ON CONFLICT (name) DO UPDATE
        SET rate_count = excluded.rate_count,
            rate_period = excluded.rate_period,
            rate_burst = excluded.rate_burst,
            -- No later than if all of the new burst were spent now. A null, where no job started under a rate, stays:
            -- least would take it for the later time.
            rate_full_at = CASE
                WHEN excluded.rate_count IS NOT NULL AND q.rate_full_at IS NOT NULL THEN least(
                    q.rate_full_at,
                    clock_timestamp() + rate_time(excluded.rate_burst, excluded.rate_count, excluded.rate_period)
                )
            END
        RETURNING q.name, q.paused_at, q.rate_count, q.rate_period, q.rate_burst, wake_runners(ARRAY[q.name]) AS woken
    )
    SELECT r.name, r.paused_at, r.rate_count, r.rate_period, r.rate_burst FROM rated AS r;
END;
COMMENT ON FUNCTION rate_queue(text, integer, interval, integer) IS
    'Sets how many of a queue''s jobs start in each period, over all runners, and how many at once after a time without starts (burst; by default the count); a null count: no rate. In any length of time at most burst + count * length / period jobs start. Wakes runners that sleep. Answers with how the queue is set. Error 22023 for a count or a burst outside 1 to 1,000,000, or a period outside 1 ms to 31 days.';

CREATE FUNCTION move_group_times(queue_name text, rate_count integer, period interval, burst integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- A statement of its own, which sees what fetches spent before the caller had the queue's row.
DECLARE
    moved bigint;
BEGIN
    UPDATE queue_group AS g
    SET rate_full_at = CASE
            WHEN move_group_times.rate_count IS NOT NULL THEN clock_timestamp() + rate_time(burst, move_group_times.rate_count, period)
        END
    WHERE g.queue = queue_name
        AND g.rate_full_at > clock_timestamp() + coalesce(rate_time(burst, move_group_times.rate_count, period), interval '0');
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
COMMENT ON FUNCTION move_group_times(text, integer, interval, integer) IS
    'Moves the times in queue_group of a queue whose groups get another rate: no later than if all of the new burst were spent now. The caller has the queue''s row locked. Returns how many were moved.';

CREATE FUNCTION rate_groups(queue_name text, rate_count integer, period interval DEFAULT NULL, burst integer DEFAULT NULL)
RETURNS TABLE (
    name text, paused_at timestamptz, group_rate_count integer, group_rate_period interval, group_rate_burst integer
)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    WITH rated AS (
        INSERT INTO queue AS q (name, group_rate_count, group_rate_period, group_rate_burst)
        SELECT $1, $2, $3, coalesce($4, $2)
        WHERE queue_may_be($1) AND rate_may_be($2, $3, $4)
        ON CONFLICT (name) DO UPDATE
        SET group_rate_count = excluded.group_rate_count,
            group_rate_period = excluded.group_rate_period,
            group_rate_burst = excluded.group_rate_burst
        RETURNING
            q.name, q.paused_at, q.group_rate_count, q.group_rate_period, q.group_rate_burst,
            move_group_times(q.name, q.group_rate_count, q.group_rate_period, q.group_rate_burst) AS moved,
            wake_runners(ARRAY[q.name]) AS woken
    )
    SELECT r.name, r.paused_at, r.group_rate_count, r.group_rate_period, r.group_rate_burst FROM rated AS r;
END;
COMMENT ON FUNCTION rate_groups(text, integer, interval, integer) IS
    'Sets how many jobs of each group of a queue start in each period, as rate_queue does for the queue. Jobs without a group are not counted. Both rates count.';

CREATE FUNCTION hold_queue(queue_name text, hold_for interval)
RETURNS TABLE (name text, paused_at timestamptz, held_until timestamptz)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, held_at, held_until)
    SELECT $1, t.at, t.at + $2 FROM (SELECT clock_timestamp() AS at) AS t WHERE queue_may_be($1) AND hold_may_be($2)
    ON CONFLICT (name) DO UPDATE
    SET held_at = CASE WHEN q.held_until >= excluded.held_until THEN q.held_at ELSE excluded.held_at END,
        held_until = greatest(q.held_until, excluded.held_until)
    RETURNING q.name, q.paused_at, q.held_until;
END;
COMMENT ON FUNCTION hold_queue(text, interval) IS
    'Holds a queue: for so long no runner fetches from it, and what runs is finished. A hold that ends later stays. resume_queue ends it at once. Answers with how the queue is set. Error 22023 for a negative time or more than 1,000 years.';

CREATE FUNCTION hold_group(queue_name text, group_key text, hold_for interval)
RETURNS TABLE (queue text, group_key text, held_until timestamptz)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as fetches lock them. A fetch that spends tokens of groups has it, and waits for no group.
    WITH locked AS (
        INSERT INTO queue AS q (name)
        SELECT $1
        WHERE queue_may_be($1) AND hold_may_be($3) AND CASE
            WHEN octet_length($2) BETWEEN 1 AND 512 THEN true
            ELSE refuse(format('invalid group: must be 1 to 512 bytes: %s', coalesce(octet_length($2)::text, 'null')))
        END
        ON CONFLICT (name) DO UPDATE SET held_until = q.held_until
        RETURNING q.name
    )
    INSERT INTO queue_group AS g (queue, group_key, held_at, held_until)
    SELECT l.name, $2, t.at, t.at + $3 FROM locked AS l CROSS JOIN (SELECT clock_timestamp() AS at) AS t
    ON CONFLICT ON CONSTRAINT queue_group_pkey DO UPDATE
    SET held_at = CASE WHEN g.held_until >= excluded.held_until THEN g.held_at ELSE excluded.held_at END,
        held_until = greatest(g.held_until, excluded.held_until)
    RETURNING g.queue, g.group_key, g.held_until;
END;
COMMENT ON FUNCTION hold_group(text, text, interval) IS
    'Holds a group of a queue: for so long no runner fetches a job of it. A hold that ends later stays. resume_group ends it at once. Answers with the group. Error 22023 as hold_queue.';

CREATE FUNCTION hold_back(queue_names text[], group_keys text[], hold_for interval[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '200ms'
AS $$
BEGIN
    FOR place IN 1..cardinality(queue_names) LOOP
        IF group_keys[place] IS NULL THEN
            PERFORM hold_queue(queue_names[place], hold_for[place]);
        ELSE
            PERFORM hold_group(queue_names[place], group_keys[place], hold_for[place]);
        END IF;
    END LOOP;
    RETURN cardinality(queue_names);
END
$$;
COMMENT ON FUNCTION hold_back(text[], text[], interval[]) IS
    'Holds queues, or of those with a group key that group, each for so long. They come in the order of the queues, a queue before its groups, so that callers and fetches never wait for each other in a circle. Error 55P03 where another transaction has a row locked for longer than 200 ms. Returns how many there were.';

CREATE FUNCTION resume_group(queue_name text, group_key text)
RETURNS TABLE (queue text, group_key text)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    -- The queue's row first, as hold_group locks them.
    WITH locked AS (
        SELECT q.name FROM queue AS q WHERE q.name = $1 FOR NO KEY UPDATE
    ),
    resumed AS (
        UPDATE queue_group AS g
        SET held_at = NULL, held_until = NULL
        WHERE (SELECT count(*) FROM locked) >= 0 AND g.queue = $1 AND g.group_key = $2 AND g.held_until > clock_timestamp()
        RETURNING g.queue, g.group_key, wake_runners(ARRAY[g.queue]) AS woken
    )
    SELECT r.queue, r.group_key FROM resumed AS r;
END;
COMMENT ON FUNCTION resume_group(text, text) IS
    'Ends the hold of a group of a queue, and wakes runners that sleep. Answers with the group; no row where it was not held.';

CREATE FUNCTION share_queue(queue_name text, fair boolean)
RETURNS TABLE (name text, paused_at timestamptz, max_per_group integer, fair boolean)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, fair)
    SELECT share_queue.queue_name, coalesce(share_queue.fair, false) WHERE queue_may_be(share_queue.queue_name)
    ON CONFLICT (name) DO UPDATE SET fair = excluded.fair
    RETURNING q.name, q.paused_at, q.max_per_group, q.fair;
END;
COMMENT ON FUNCTION share_queue(text, boolean) IS
    'Whether a queue is shared fairly: within a priority its groups take turns, and the jobs without a group are one more. Without it, groups take turns among themselves, and jobs without a group come by their time. Answers with how the queue is set.';

CREATE FUNCTION retain_queue(
    queue_name text, keep_completed interval, keep_cancelled interval, keep_discarded interval
)
RETURNS TABLE (name text, paused_at timestamptz, max_running integer)
    LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO queue AS q (name, keep_completed, keep_cancelled, keep_discarded)
    SELECT
        retain_queue.queue_name, retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded
    WHERE queue_may_be(retain_queue.queue_name) AND CASE
        WHEN least(retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded) < interval '0' THEN
            refuse(format(
                'invalid retention: must not be negative: %s',
                least(retain_queue.keep_completed, retain_queue.keep_cancelled, retain_queue.keep_discarded)
            ))
        ELSE true
    END
    ON CONFLICT (name) DO UPDATE
    SET keep_completed = excluded.keep_completed,
        keep_cancelled = excluded.keep_cancelled,
        keep_discarded = excluded.keep_discarded
    RETURNING q.name, q.paused_at, q.max_running;
END;
COMMENT ON FUNCTION retain_queue(text, interval, interval, interval) IS
    'Says how long a queue''s completed, cancelled and discarded jobs are kept: 0 completed deletes them when they complete; null leaves it to the runners; for ever is a long time, such as 1000 years. Answers with how the queue is set. Error 22023 for a negative time.';

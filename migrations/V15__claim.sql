-- Claims of jobs that come back, and jobs that are started one by one because a fetch of many failed.

-- Each object is defined once and whole. `doctor` takes from here the text of an object that was changed by hand.

-- A job that comes back to its unique states takes its claim back if the key is free; else it goes on without.
--
-- First all keys are tried at once, of the first comer for each. Where that fails, since another transaction has one of
-- them, each key is tried in a subtransaction of its own, with a lock timeout of 10 ms. After 100 ms of timeouts in a batch
-- the limit is 1 ms, and after 300 ms the rest of the batch goes on without claims. Contested keys therefore never stop a
-- batch, a promotion or a queue.
--
-- The caller's rows stay locked meanwhile. An insert that holds a contested key and waits for one of those rows is in a
-- deadlock with these functions. They must end before deadlock_timeout (1 s) aborts that insert.

CREATE FUNCTION _unmet_parents(child uuid, retried uuid[]) RETURNS uuid[]
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT array_agg(u.id)
    FROM (
        SELECT
            p.id, p.state, p.finalized_at, p.replaced_by, e.condition,
            bool_and(p.state = 'completed') OVER (PARTITION BY e.condition) AS have_all_completed
        FROM job_parent AS e
        INNER JOIN job AS p ON p.id = e.parent
        WHERE e.child = _unmet_parents.child
    ) AS u
    WHERE u.finalized_at IS NULL OR u.replaced_by IS NOT NULL OR u.id = ANY (_unmet_parents.retried)
        OR CASE u.condition WHEN 'completed' THEN u.state <> 'completed' WHEN 'failed' THEN u.have_all_completed END;
END;
COMMENT ON FUNCTION _unmet_parents IS 'The parents, with those in retried, that have not ended as the job asks. Null: the job need not wait.';

CREATE FUNCTION _retry(ids uuid[], with_claims boolean, retried uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    -- One statement, so that the edges of a job are open exactly if the job waits. Else they have the present outcomes.
    WITH waiting AS MATERIALIZED (
        SELECT i.id, u.unmet
        FROM unnest(ids) AS i (id)
        CROSS JOIN LATERAL (SELECT _unmet_parents(i.id, retried) AS unmet OFFSET 0) AS u
        WHERE u.unmet IS NOT NULL
    ),
    reopened AS (
        UPDATE job_parent AS e
        SET outcome = CASE
                WHEN e.child <> ALL (ARRAY(SELECT w.id FROM waiting AS w))
                    THEN (SELECT p.state FROM job AS p WHERE p.id = e.parent)
            END,
            linked = e.child <> ALL (ARRAY(SELECT w.id FROM waiting AS w)),
            -- The end that a parent has now does not count. The job waits until the parent is retried.
            refused_end = (
                SELECT p.finalized_at
                FROM waiting AS w, job AS p
                WHERE w.id = e.child AND p.id = e.parent AND p.id = ANY (w.unmet) AND p.replaced_by IS NULL
            )
        WHERE e.child = ANY (ids)
            AND (SELECT p.id FROM job AS p WHERE p.id = e.parent LIMIT 1) IS NOT NULL
    )
    UPDATE job AS j
    SET (state, scheduled_at, unique_yielded) = (
            SELECT
                n.state, CASE WHEN n.state = 'pending' THEN j.scheduled_at ELSE clock_timestamp() END,
                NOT with_claims AND (j.unique_yielded OR _enters_claim(j.unique_states, j.state, n.state))
            FROM (
                SELECT
                    CASE WHEN j.id IN (SELECT w.id FROM waiting AS w) THEN 'pending' ELSE 'available' END::job_state AS state
                OFFSET 0
            ) AS n
        ),
        finalized_at = NULL,
        replaced_by = NULL,
        -- Its next end is noted for the children that wait for it then.
        awaited = CASE WHEN j.awaited IS NOT NULL THEN true END,
        max_attempts = greatest(j.max_attempts, least(j.attempt::integer + 1, 32767)),
        -- A job that was discarded for its crashes comes back as a suspect.
        crashes = least(j.crashes, 1),
        -- The operator wants it to run, however late.
        expires_at = NULL,
        -- A final job has lost its place in its group.
        began = CASE WHEN j.finalized_at IS NULL THEN j.began END
    WHERE j.id = ANY (ids);
END
$$;
COMMENT ON FUNCTION _retry IS 'Makes jobs available at once, with at least one attempt left, or pending if a parent has not ended as they ask. with_claims: whether the jobs take back the claims that they lack. retried: all jobs of the retry.';

CREATE FUNCTION _try_claims(comers uuid[], expired uuid[], retried uuid[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    UPDATE job AS h
    SET unique_states = 0
    WHERE h.id = ANY (expired) AND _not_by_partial_index(h.claims) AND h.unique_until <= clock_timestamp();
    IF retried IS NOT NULL THEN
        PERFORM _retry(comers, true, retried);
    ELSE
        UPDATE job AS j SET unique_yielded = false WHERE j.id = ANY (comers);
    END IF;
    RETURN true;
EXCEPTION
    WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
        RETURN false;
END
$$;
COMMENT ON FUNCTION _try_claims IS 'Gives all of these jobs their claims back, or none. retried: also retries them. Returns whether it succeeded.';

CREATE FUNCTION _claim_free_keys(ids uuid[], retried uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '10ms'
AS $$
DECLARE
    found record;
    comer uuid;
    taken uuid[] := '{}';
    began timestamptz;
    lost interval := '0';
BEGIN
    -- One job for each key that no other job claims, or whose holder's claim has expired. The holder is found by a probe for
    -- each job. The planner would make a join with all claims of NOT EXISTS.
    SELECT array_agg(f.id) AS comers, array_agg(f.holder) FILTER (WHERE f.holder IS NOT NULL) AS expired
    INTO found
    FROM (
        SELECT DISTINCT ON (j.unique_key) j.id, h.id AS holder, h.unique_until
        FROM job AS j
        LEFT JOIN LATERAL (
            SELECT c.id, c.unique_until FROM job AS c WHERE c.unique_key = j.unique_key AND c.claims LIMIT 1
        ) AS h ON true
        WHERE j.id = ANY (ids)
            AND NOT j.claims
            AND j.unique_states & _state_bit(CASE WHEN retried IS NOT NULL THEN 'available' ELSE j.state END) <> 0
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        ORDER BY j.unique_key, j.id
    ) AS f
    WHERE f.holder IS NULL OR f.unique_until <= clock_timestamp();
    IF found.comers IS NULL OR _try_claims(found.comers, found.expired, retried) THEN
        RETURN coalesce(found.comers, '{}');
    END IF;
    FOREACH comer IN ARRAY found.comers LOOP
        EXIT WHEN lost > interval '300 ms';
        began := clock_timestamp();
        IF _try_claims(ARRAY[comer], found.expired, retried) THEN
            taken := taken || comer;
        ELSE
            lost := lost + (clock_timestamp() - began);
            IF lost > interval '100 ms' THEN
                PERFORM set_config('lock_timeout', '1ms', true);
            END IF;
        END IF;
    END LOOP;
    RETURN taken;
END
$$;
COMMENT ON FUNCTION _claim_free_keys IS 'Gives jobs their claims back if their keys are free. retried: as _try_claims. Returns the ids of the jobs that took their claims.';

CREATE FUNCTION _take_claims(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    -- The caller has locked the rows. lock_timeout also counts the wait for the table's next page, and no job may fail.
    SET lock_timeout = 0
AS $$
DECLARE
    discarded uuid[];
    are_awaited boolean;
BEGIN
    IF ids IS NULL OR cardinality(_claim_free_keys(ids, retried => NULL)) = cardinality(ids) THEN
        RETURN '{}';
    END IF;
    -- A job is discarded only for a committed holder. The transaction that won the key may still roll back.
    WITH changed AS (
        UPDATE job AS j
        SET state = 'discarded',
            finalized_at = clock_timestamp(),
            errors = _with_error(
                j.errors,
                j.attempt,
                clock_timestamp(),
                -- Where the group's key is made of the same text, one job runs at a time, and the holder does the work.
                CASE
                    WHEN j.unique_key IN (j.group_key, encode(sha256(convert_to(j.group_key, 'UTF8')), 'hex'))
                        THEN 'superseded: another job holds the unique key'
                    ELSE 'discarded on re-entry: another job holds the unique key'
                END,
                '{"code": "superseded"}'
            )
        WHERE j.id = ANY (ids)
            AND j.unique_yielded
            AND j.discard_on_reentry
            AND j.unique_states & _state_bit(j.state) <> 0
            AND j.state NOT IN ('completed', 'cancelled', 'discarded')
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
            -- A probe for each job.
            AND (
                SELECT h.id
                FROM job AS h
                WHERE h.unique_key = j.unique_key
                    AND h.claims
                    AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
                    AND NOT _has_expired(h.expires_at, h.state, clock_timestamp())
                LIMIT 1
            ) IS NOT NULL
        RETURNING j.id, j.awaited
    )
    SELECT array_agg(c.id), bool_or(c.awaited) INTO discarded, are_awaited FROM changed AS c;
    IF are_awaited THEN
        PERFORM _wake_releaser();
    END IF;
    RETURN coalesce(discarded, '{}');
END
$$;
COMMENT ON FUNCTION _take_claims IS 'Gives jobs that yielded their claim on re-entry their claim back if the key is free. The other jobs go on without a claim, or are discarded if their policy says so. Returns the ids of the discarded jobs.';

CREATE FUNCTION _settle(INOUT ids uuid[])
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    changed record;
BEGIN
    IF coalesce(_settle.ids, '{}') = '{}' THEN
        ids := '{}';
        RETURN;
    END IF;
    SELECT
        array_agg(j.id) FILTER (WHERE j.unique_yielded) AS returning_ids,
        array_agg(DISTINCT j.queue::text) FILTER (WHERE j.state = 'available') AS queues,
        bool_or(j.awaited AND j.finalized_at IS NOT NULL) AS are_awaited
    INTO changed
    FROM job AS j
    WHERE j.id = ANY (_settle.ids);
    PERFORM _wake_runners(changed.queues);
    PERFORM _wake_releaser() WHERE changed.are_awaited;
    ids := _take_claims(changed.returning_ids);
END
$$;
COMMENT ON FUNCTION _settle IS 'After a change of these jobs'' states: takes claims back and sends wake-ups. Returns what _take_claims returns.';

CREATE FUNCTION _next_jobs(queues text[], free integer[], kinds text[], except_ids uuid[]) RETURNS SETOF uuid
    LANGUAGE sql VOLATILE
AS $$
-- Only ids, so that no value is read.
SELECT DISTINCT n.id
FROM unnest(queues, _next_jobs.free) AS w (queue, free)
CROSS JOIN LATERAL (
    (
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.queue AND j.state = 'available' AND j.crashes > 0 AND j.group_key IS NULL
            AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
        ORDER BY j.crashes, j.priority DESC, j.scheduled_at, j.id
        LIMIT greatest(w.free, 16)
    )
    UNION ALL
    SELECT o.id
    FROM (
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
            AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
            AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT w.free
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS o
    UNION ALL
    (
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.queue AND j.group_key IS NULL AND j.state = 'available' AND j.crashes = 0
            AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
            AND (j.expires_at IS NULL OR j.expires_at > statement_timestamp())
        ORDER BY j.priority DESC, j.scheduled_at, j.id
        LIMIT 16
    )
    UNION ALL
    (
        SELECT j.id
        FROM job AS j
        WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available'
            AND (j.kind = ANY (kinds)) IS NOT FALSE AND j.id <> ALL (except_ids)
        ORDER BY j.priority DESC, j.group_key, j.scheduled_at, j.id
        LIMIT 16
    )
    UNION ALL
    SELECT unnest(g.ids)
    FROM (
        SELECT w.queue
        WHERE EXISTS (SELECT FROM job AS j WHERE j.queue = w.queue AND j.group_key IS NOT NULL AND j.state = 'available')
    ) AS q
    CROSS JOIN LATERAL _jobs_of_groups(q.queue, kinds, w.free, 1, false, except_ids, 10000, '', '{}') AS g
) AS n (id)
$$;
COMMENT ON FUNCTION _next_jobs IS 'The jobs that a fetch from the heads of these queues would take now. free: the free slots, for each queue. kinds null: any kind. except_ids: jobs to leave out. The first sixteen jobs of each sort are included even if they are locked. After a fetch that was given up, the server may still hold the locks of its jobs.';

CREATE FUNCTION try_jobs(ids uuid[], worker uuid)
    RETURNS TABLE (id uuid, is_there boolean, is_locked boolean, bytes bigint, took double precision, code text, problem text)
    LANGUAGE plpgsql VOLATILE
    -- The limit concerns rows that a trigger of the application locks.
    SET lock_timeout = '100ms'
AS $$
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
                    reserved_until = NULL,
                    began = CASE WHEN j.in_order THEN coalesce(j.began, j.run % 2147483647 + 1) END,
                    unique_states = CASE WHEN j.until_start AND j.unique_states > 0 THEN 0 ELSE j.unique_states END,
                    unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, 'available', 'running')
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
COMMENT ON FUNCTION try_jobs IS 'Tries one by one whether available jobs can be read and started by the worker. Every trial is rolled back. worker null: they are only read. Returns one row for each tried job. bytes: the approximate size of its values. Null: they cannot be read. code, problem: the error of the database. Code 57014: the statement timed out at this job, and the later ones were not tried.';

CREATE FUNCTION _discard_unreadable(job_id uuid, reason text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
-- The values stay as they are, so nothing has to be read of them. Only the errors can be read. Else the reason replaces them.
DECLARE
    keep_errors boolean;
    problem text;
BEGIN
    FOREACH keep_errors IN ARRAY '{true, false}'::boolean[] LOOP
        BEGIN
            UPDATE job AS j
            SET state = 'discarded',
                finalized_at = clock_timestamp(),
                errors = _with_error(CASE WHEN keep_errors THEN j.errors ELSE '[]' END, j.attempt, clock_timestamp(), reason, '{"code": "unreadable"}'),
                unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, 'available', 'discarded')
            WHERE j.id = ANY (ARRAY(
                SELECT f.id FROM job AS f WHERE f.id = job_id AND f.state = 'available' FOR NO KEY UPDATE SKIP LOCKED
            ));
            PERFORM _settle(ARRAY[job_id]) WHERE FOUND;
            RETURN NOT EXISTS (SELECT FROM job AS j WHERE j.id = job_id AND j.state = 'available');
        EXCEPTION
            WHEN others THEN
                problem := SQLERRM;
        END;
    END LOOP;
    RAISE WARNING 'a job that cannot be read cannot be discarded: %: %', job_id, problem;
    RETURN false;
END
$$;
COMMENT ON FUNCTION _discard_unreadable IS 'Discards an available job that no fetch can return, with the reason. Returns whether the job is out of the way: it was discarded, or is not available any more. False: another transaction has the job locked, or it cannot be changed.';

CREATE FUNCTION release_claim(unique_key text) RETURNS uuid
    LANGUAGE sql VOLATILE
AS $$
    UPDATE job AS j
    SET unique_states = 0
    WHERE j.unique_key = release_claim.unique_key COLLATE "C" AND j.claims
    RETURNING j.id
$$;
COMMENT ON FUNCTION release_claim IS 'For operators: ends the claim on a key for good. The job that claimed it otherwise stays as it is. Returns the id of that job, even if the claim had expired. Null: no job claims the key.';

-- Claims of jobs that come back, and jobs that are started one by one because a fetch of many failed.

-- Each object is defined once and whole. `doctor` takes from here the text of an object that was changed by hand.
CREATE FUNCTION _take_claims(ids uuid[]) RETURNS uuid[]
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
                AND j.unique_states & _state_bit(j.state) <> 0
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
            AND j.unique_states & _state_bit(j.state) <> 0
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
                    AND j.unique_states & _state_bit(j.state) <> 0
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
                errors = _with_error(
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
                AND j.unique_states & _state_bit(j.state) <> 0
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
COMMENT ON FUNCTION _take_claims(uuid[]) IS
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

CREATE FUNCTION _retry_with_claims(ids uuid[]) RETURNS TABLE (id uuid, holder uuid)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in _take_claims, with the same limits.
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
COMMENT ON FUNCTION _retry_with_claims(uuid[]) IS
    'Makes final jobs available that discard themselves on re-entry, each with its claim or not at all. Answers with a row for each that was refused, and the job that holds its key; null: that is in another transaction which is still open, or the time for waiting was used up.';

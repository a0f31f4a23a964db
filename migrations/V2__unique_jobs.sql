-- Inserting with unique keys, and taking a claim back. Runs with search_path set to the schema.

CREATE FUNCTION take_claims(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '10ms'
AS $$
-- A job that comes back to its unique states has yielded its claim in the same statement. Here it
-- takes the claim back if the key is free. Every contest is in a block of its own and lost within
-- 10 ms, within 1 ms once a batch has lost 100 ms, and after 300 ms the rest of the batch goes on
-- without its claims: contested keys never stop a batch, a promotion or a queue. The caller's rows
-- stay locked meanwhile, so an insert that waits for one of them and holds a contested key is in a
-- deadlock with this; it must be over before deadlock_timeout (1 s) makes that insert its victim.
DECLARE
    comer record;
    patience text := current_setting('lock_timeout');
    discarded uuid[] := '{}';
    is_taken boolean;
    began timestamptz;
    lost interval := '0';
BEGIN
    FOR comer IN
        SELECT j.id, j.discard_on_reentry
        FROM job AS j
        WHERE j.id = ANY (ids)
            AND j.unique_yielded
            AND j.unique_states & state_bit(j.state) <> 0
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        ORDER BY j.unique_key, j.id
    LOOP
        is_taken := false;
        IF lost <= interval '300 ms' THEN
            began := clock_timestamp();
            BEGIN
                UPDATE job AS expired
                SET unique_states = 0
                FROM job AS j
                WHERE j.id = comer.id
                    AND expired.unique_key = j.unique_key
                    AND expired.claims
                    AND expired.unique_until <= clock_timestamp();
                UPDATE job AS j
                SET unique_yielded = false
                WHERE j.id = comer.id
                    AND j.unique_yielded
                    AND j.unique_states & state_bit(j.state) <> 0
                    AND NOT EXISTS (
                        SELECT FROM job AS holder
                        WHERE holder.unique_key = j.unique_key AND holder.claims
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
            -- The row is the caller's own, so nobody's lock can hold this up; but lock_timeout also
            -- counts the wait for the table's next page, and this must not fail.
            PERFORM set_config('lock_timeout', '0', true);
            -- Only a holder that is there can cost a job its life: a contest lost to a transaction
            -- that is still open may have been lost to nobody.
            UPDATE job AS j
            SET state = 'discarded',
                finalized_at = clock_timestamp(),
                errors = j.errors || jsonb_build_object(
                    'attempt', j.attempt,
                    'at', clock_timestamp(),
                    'error', 'discarded on re-entry: another job holds the unique key'
                )
            WHERE j.id = comer.id
                AND j.unique_states & state_bit(j.state) <> 0
                AND j.state NOT IN ('completed', 'cancelled', 'discarded')
                AND EXISTS (
                    SELECT FROM job AS holder
                    WHERE holder.unique_key = j.unique_key
                        AND holder.claims
                        AND holder.id <> j.id
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

CREATE FUNCTION insert_jobs(
    ids uuid[],
    kinds text[],
    queues text[],
    args jsonb[],
    metas jsonb[],
    priorities smallint[],
    max_attempts smallint[],
    scheduled_ats timestamptz[],
    delays interval[],
    pendings boolean[],
    unique_keys text[],
    unique_states smallint[],
    periods interval[],
    ttls interval[],
    until_starts boolean[],
    discards_on_reentry boolean[],
    on_conflicts text[],
    in_order boolean DEFAULT false,
    max_wait interval DEFAULT NULL
)
RETURNS TABLE (input_id uuid, outcome text, replaced uuid, job job)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that probes by index however small the table was when it was made. What
    -- enable_seqscan adds to a cost would set off the JIT.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- now() stands still in the caller's transaction; a claim must not begin, or end, before its time.
    instant CONSTANT timestamptz := clock_timestamp();
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    size CONSTANT integer := coalesce(cardinality(ids), 0);
    -- Whether a job of this batch can replace another of it.
    has_twins CONSTANT boolean := (SELECT count(k.key) > count(DISTINCT k.key) FROM unnest(unique_keys) AS k (key));
    answered bigint;
    turn record;
    holder job;
    entered job;
    is_replaced boolean;
    is_refused boolean := false;
    rounds integer;
    arrived timestamptz;
    due timestamptz;
    earlier integer;
    answers job[] := array_fill(NULL::job, ARRAY[size]);
    outcomes text[] := array_fill(NULL::text, ARRAY[size]);
    successions uuid[] := array_fill(NULL::uuid, ARRAY[size]);
BEGIN
    IF max_wait IS NOT NULL THEN
        PERFORM set_config(
            'lock_timeout',
            -- 0 would mean for ever, and PostgreSQL counts up to 24 days.
            least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
            true
        );
    END IF;

    -- A job alone has nothing to be ordered against: the second pass serves it with less to set up.
    -- First pass: the whole batch in one statement. Rows that meet a holder are answered with it,
    -- the others are inserted. Trouble (an expired claim, a rival that was quicker, an id that is
    -- there already) gives everything back, so that the second pass can take keys in order.
    IF NOT in_order AND size > 1 THEN
        BEGIN
            RETURN QUERY
            WITH input AS MATERIALIZED (
                SELECT
                    u.*,
                    coalesce(u.scheduled_at, instant + u.delay, instant) AS due_at,
                    h.id AS holder_id,
                    h.unique_until <= instant AS is_expired,
                    h::job AS holder
                FROM unnest(
                    ids, kinds, queues, args, metas, priorities, max_attempts, scheduled_ats, delays, pendings,
                    unique_keys, unique_states, periods, ttls, until_starts, discards_on_reentry
                ) WITH ORDINALITY AS u (
                    id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                    unique_key, unique_states, period, ttl, until_start, discard_on_reentry, place
                )
                -- LIMIT keeps this a probe for each row: a join could be planned to compare every
                -- row with every claim, and the plan is kept while the table grows.
                LEFT JOIN LATERAL (
                    SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
                ) AS h ON true
            ),
            entered AS (
                INSERT INTO job AS j (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                    unique_key, unique_states, unique_until, until_start, discard_on_reentry
                )
                SELECT
                    i.id, i.kind, i.queue, i.args, i.meta, i.priority, i.max_attempts, instant, i.due_at,
                    CASE
                        WHEN i.is_pending THEN 'pending'
                        WHEN i.due_at > instant THEN 'scheduled'
                        ELSE 'available'
                    END::job_state,
                    i.unique_key, i.unique_states,
                    coalesce(instant + i.period, greatest(instant, i.due_at) + i.ttl),
                    i.until_start, i.discard_on_reentry
                FROM input AS i
                WHERE i.holder_id IS NULL
                    AND NOT EXISTS (SELECT FROM input AS expired WHERE expired.is_expired)
                -- One fixed order for all, so that two batches can never deadlock.
                ORDER BY i.unique_key COLLATE "C", i.place
                ON CONFLICT DO NOTHING
                RETURNING j AS job
            ),
            answer AS (
                SELECT (e.job).id AS input_id, 'inserted' AS outcome, e.job
                FROM entered AS e
                UNION ALL
                SELECT i.id, 'duplicate', i.holder
                FROM input AS i
                WHERE NOT i.is_expired OR (i.holder_id IS NOT NULL AND i.is_expired IS NULL)
            )
            SELECT a.input_id, a.outcome, NULL::uuid, a.job
            FROM answer AS a
            WHERE size = (SELECT count(*) FROM answer)
                AND (
                    SELECT wake_runners(array_agg(DISTINCT (e.job).queue)) FROM entered AS e WHERE (e.job).ready
                ) IS NOT NULL;
            GET DIAGNOSTICS answered = ROW_COUNT;
            IF answered = size THEN
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                RETURN;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'first pass given back';
        EXCEPTION
            WHEN SQLSTATE 'UQ001' THEN
                NULL;
            WHEN lock_not_available THEN
                IF max_wait IS NULL THEN
                    RAISE;
                END IF;
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                RETURN QUERY SELECT u.id, 'busy', NULL::uuid, NULL::job FROM unnest(ids) AS u (id);
                RETURN;
        END;
    END IF;

    -- Second pass: key by key in the same fixed order, each settled before the next is touched. A
    -- block of its own, so that a refusal gives back the whole batch and nothing else.
    BEGIN
        FOR turn IN
            SELECT u.*
            FROM unnest(
                ids, kinds, queues, args, metas, priorities, max_attempts, scheduled_ats, delays, pendings,
                unique_keys, unique_states, periods, ttls, until_starts, discards_on_reentry, on_conflicts
            ) WITH ORDINALITY AS u (
                id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                unique_key, unique_states, period, ttl, until_start, discard_on_reentry, on_conflict, place
            )
            -- Jobs without a key can still meet by their ids, so those are taken in one order, too.
            ORDER BY u.unique_key COLLATE "C", CASE WHEN u.unique_key IS NULL THEN u.id END, u.place
        LOOP
            rounds := 0;
            -- Each round is lost to a rival that committed meanwhile, so somebody always gets on.
            WHILE outcomes[turn.place] IS NULL LOOP
                rounds := rounds + 1;
                IF rounds > 10000 THEN
                    RAISE EXCEPTION USING
                        ERRCODE = 'serialization_failure',
                        MESSAGE = 'insert lost 10000 rounds against rivals for one unique key',
                        HINT = 'Something inserts and finishes jobs with this key without pause. Try again.';
                END IF;

                -- The same insert, sent again.
                SELECT j.* INTO entered FROM job AS j WHERE j.id = turn.id;
                IF FOUND THEN
                    answers[turn.place] := entered;
                    outcomes[turn.place] := 'inserted';
                    CONTINUE;
                END IF;

                holder := NULL;
                IF turn.unique_key IS NOT NULL THEN
                    SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = turn.unique_key AND h.claims;
                END IF;

                IF holder.unique_until <= clock_timestamp() THEN
                    UPDATE job AS h
                    SET unique_states = 0
                    WHERE h.id = holder.id AND h.claims AND h.unique_until <= clock_timestamp();
                ELSIF holder.id IS NOT NULL AND coalesce(turn.on_conflict, 'ignore') = 'ignore' THEN
                    answers[turn.place] := holder;
                    outcomes[turn.place] := 'duplicate';
                    CONTINUE;
                ELSIF turn.on_conflict NOT IN ('ignore', 'reject', 'replace', 'replace_except_schedule') THEN
                    RAISE EXCEPTION USING
                        ERRCODE = 'invalid_parameter_value',
                        MESSAGE = format('unknown on_conflict: %L', turn.on_conflict),
                        HINT = 'One of ignore, reject, replace, replace_except_schedule.';
                ELSIF holder.id IS NOT NULL AND (turn.on_conflict = 'reject' OR holder.state = 'running') THEN
                    answers[turn.place] := holder;
                    outcomes[turn.place] := 'rejected';
                    is_refused := true;
                    CONTINUE;
                ELSIF holder.id IS NOT NULL THEN
                    -- Replace. In a block of its own, so that a holder that started or finished
                    -- meanwhile is not left locked by an update that changed nothing.
                    BEGIN
                        UPDATE job AS h
                        SET unique_states = 0,
                            replaced_by = turn.id,
                            state = CASE WHEN h.finalized_at IS NULL THEN 'cancelled' ELSE h.state END,
                            finalized_at = coalesce(h.finalized_at, clock_timestamp())
                        WHERE h.id = holder.id AND h.claims AND h.state <> 'running'
                        RETURNING h.* INTO entered;
                        is_replaced := FOUND;
                        IF NOT is_replaced THEN
                            RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'the holder moved on';
                        END IF;
                    EXCEPTION
                        WHEN SQLSTATE 'UQ002' THEN
                            NULL;
                    END;
                    CONTINUE WHEN NOT is_replaced;
                    successions[turn.place] := holder.id;
                    earlier := CASE WHEN has_twins THEN array_position(ids, holder.id) END;
                    IF earlier IS NOT NULL THEN
                        answers[earlier] := entered;
                    END IF;
                    -- A holder that waits for no time of its own has no schedule to keep.
                    IF turn.on_conflict = 'replace_except_schedule' AND holder.state = 'scheduled' THEN
                        turn.scheduled_at := holder.scheduled_at;
                    END IF;
                END IF;

                arrived := clock_timestamp();
                due := coalesce(turn.scheduled_at, arrived + turn.delay, arrived);
                INSERT INTO job AS j (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                    unique_key, unique_states, unique_until, until_start, discard_on_reentry
                )
                VALUES (
                    turn.id, turn.kind, turn.queue, turn.args, turn.meta, turn.priority, turn.max_attempts,
                    arrived, due,
                    CASE
                        WHEN turn.is_pending THEN 'pending'
                        WHEN due > arrived THEN 'scheduled'
                        ELSE 'available'
                    END::job_state,
                    turn.unique_key, turn.unique_states,
                    coalesce(arrived + turn.period, greatest(arrived, due) + turn.ttl),
                    turn.until_start, turn.discard_on_reentry
                )
                ON CONFLICT DO NOTHING
                RETURNING j.* INTO entered;
                IF FOUND THEN
                    answers[turn.place] := entered;
                    outcomes[turn.place] := 'inserted';
                END IF;
            END LOOP;
        END LOOP;
        IF is_refused THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'refused';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ001' THEN
            NULL;
        WHEN lock_not_available THEN
            IF max_wait IS NULL THEN
                RAISE;
            END IF;
            PERFORM set_config('lock_timeout', caller_lock_timeout, true);
            RETURN QUERY SELECT u.id, 'busy', NULL::uuid, NULL::job FROM unnest(ids) AS u (id);
            RETURN;
    END;
    PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    IF NOT is_refused THEN
        PERFORM wake_runners(array_agg(DISTINCT a.queue))
        FROM unnest(answers) AS a
        WHERE a.ready AND a.id = ANY (ids)
        HAVING count(*) > 0;
    END IF;
    RETURN QUERY
    SELECT ids[u.place], outcomes[u.place], successions[u.place], answers[u.place]
    FROM generate_series(1, size) AS u (place)
    WHERE NOT is_refused OR outcomes[u.place] = 'rejected';
END
$$;
COMMENT ON FUNCTION insert_jobs(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], boolean, interval
) IS
    'Inserts a batch of jobs, all or nothing, one array an attribute and one place a job. Answers once an input: inserted, duplicate (job is the holder), rejected (nothing was inserted) or busy (max_wait ran out, nothing was inserted). in_order takes key by key, as on_conflict other than ignore, equal keys in the batch and ids that may exist need; without it the keys of a batch must differ. The front door for people is insert_job.';

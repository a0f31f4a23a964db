-- What is given may be of any size: a batch, a transaction, a table, a number, and the wait of a commit. Runs with
-- search_path set to the schema.

-- insert_each: patience ends when the keys are taken, since the commit has waits of its own.
CREATE OR REPLACE FUNCTION insert_each(
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
    all_or_nothing boolean DEFAULT false,
    patience interval DEFAULT NULL,
    folded integer[] DEFAULT NULL
)
RETURNS TABLE (
    input_id uuid,
    outcome text,
    state job_state,
    created_at timestamptz,
    scheduled_at timestamptz,
    unique_until timestamptz,
    holder job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_jobs: one plan, made once, that probes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- now() stands still in the caller's transaction; a claim must not begin, or end, before its time.
    instant CONSTANT timestamptz := clock_timestamp();
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    size CONSTANT integer := cardinality(ids);
    has_times CONSTANT boolean := cardinality(scheduled_ats) + cardinality(delays) + cardinality(pendings)
        + cardinality(periods) + cardinality(ttls) > 0;
    settled uuid[] := '{}';
    entered uuid[] := '{}';
    met_places bigint[] := '{}';
    met_holders uuid[] := '{}';
    met record;
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM patience) * 1000)) || 'ms', true);
    END IF;

    -- The look comes first. It finds duplicates at a tenth of what an insert costs that comes to nothing; it
    -- waits for nobody who is just changing a holder; and a job that does not claim its key in its first
    -- state meets nobody in the index.
    FOR met IN
        SELECT ids[u.place] AS id, u.place, h::job AS holder
        FROM unnest(unique_keys) WITH ORDINALITY AS u (unique_key, place)
        -- LIMIT keeps this a probe for each key, whatever the planner believes.
        CROSS JOIN LATERAL (
            SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
        ) AS h
        WHERE h.unique_until IS NULL OR h.unique_until > instant
    LOOP
        input_id := met.id;
        outcome := 'duplicate';
        holder := met.holder;
        settled := settled || met.id;
        met_places := met_places || met.place;
        met_holders := met_holders || (met.holder).id;
        RETURN NEXT;
    END LOOP;

    IF cardinality(settled) < size THEN
        WITH added AS (
            INSERT INTO job AS j (
                id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                unique_key, unique_states, unique_until, until_start, discard_on_reentry
            )
            SELECT
                u.id, coalesce(u.kind, kinds[1]), coalesce(u.queue, queues[1]), u.args, coalesce(u.meta, metas[1]),
                coalesce(u.priority, priorities[1]), coalesce(u.max_attempts, insert_each.max_attempts[1]),
                instant, d.due_at,
                CASE WHEN u.is_pending THEN 'pending' WHEN d.due_at > instant THEN 'scheduled' ELSE 'available' END
                    ::job_state,
                u.unique_key,
                CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, insert_each.unique_states[1]) END,
                coalesce(instant + u.period, greatest(instant, d.due_at) + u.ttl),
                coalesce(u.until_start, until_starts[1]), coalesce(u.discard_on_reentry, discards_on_reentry[1])
            FROM unnest(
                ids, kinds, queues, insert_each.args, metas, priorities, insert_each.max_attempts, scheduled_ats, delays,
                pendings, unique_keys, insert_each.unique_states, periods, ttls, until_starts, discards_on_reentry
            ) AS u (
                id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                unique_key, unique_states, period, ttl, until_start, discard_on_reentry
            )
            CROSS JOIN LATERAL (SELECT coalesce(u.scheduled_at, instant + u.delay, instant)) AS d (due_at)
            WHERE u.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id))
            -- One fixed order for all, so that two batches can never deadlock.
            ORDER BY u.unique_key COLLATE "C"
            ON CONFLICT (unique_key) WHERE claims DO NOTHING
            RETURNING j.id
        )
        SELECT coalesce(array_agg(a.id), '{}') INTO entered FROM added AS a;
        settled := settled || entered;
    END IF;

    -- Those that met somebody, seen after whoever they met has committed. An expired claim takes more
    -- than looking.
    IF cardinality(settled) < size THEN
        FOR met IN
            SELECT u.id, u.place, h::job AS holder
            FROM unnest(ids, unique_keys) WITH ORDINALITY AS u (id, unique_key, place)
            CROSS JOIN LATERAL (
                SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
            ) AS h
            WHERE u.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id))
                -- The rival may have kept it waiting for longer than the claim lasts.
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
        LOOP
            input_id := met.id;
            outcome := 'duplicate';
            holder := met.holder;
            settled := settled || met.id;
            met_places := met_places || met.place;
            met_holders := met_holders || (met.holder).id;
            RETURN NEXT;
        END LOOP;
        IF cardinality(settled) < size THEN
            IF all_or_nothing THEN
                RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'given back';
            END IF;
            RETURN QUERY
            SELECT i.id, 'open', NULL::job_state, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::job
            FROM unnest(ids) AS i (id)
            WHERE i.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id));
        END IF;
    END IF;

    IF patience IS NOT NULL THEN
        -- What the commit waits for is no such wait.
        PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    END IF;

    -- For the audit (migration 11), where one is on.
    IF (cardinality(met_places) > 0 OR folded IS NOT NULL)
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL)
    THEN
        PERFORM note_duplicates(
            array_agg(coalesce(kinds[u.place], kinds[1])), array_agg(unique_keys[u.place]),
            array_agg(coalesce(m.holder, ids[u.place])),
            array_agg(coalesce(folded[u.place], 0) + (m.holder IS NOT NULL)::integer)
        )
        FROM generate_series(1, size) AS u (place)
        LEFT JOIN unnest(met_places, met_holders) AS m (place, holder) ON m.place = u.place
        WHERE m.holder IS NOT NULL OR (folded[u.place] > 0 AND ids[u.place] IN (SELECT s.id FROM unnest(settled) AS s (id)));
    END IF;

    IF cardinality(entered) > 0 THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle AND r.queues && insert_each.queues) THEN
            PERFORM wake_runners(array_agg(DISTINCT j.queue))
            FROM job AS j
            WHERE j.id = ANY (entered) AND j.ready
            HAVING count(*) > 0;
        END IF;
        IF has_times THEN
            RETURN QUERY
            SELECT j.id, 'inserted', j.state, j.created_at, j.scheduled_at, j.unique_until, NULL::job
            FROM job AS j
            WHERE j.id = ANY (entered);
        ELSE
            RETURN QUERY
            SELECT NULL::uuid, 'inserted', 'available'::job_state, instant, instant, NULL::timestamptz, NULL::job;
        END IF;
    END IF;
END
$$;

-- insert_jobs: what comes after the keys takes time in proportion to the batch. No array is searched for each job.
CREATE OR REPLACE FUNCTION insert_jobs(
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
    max_wait interval DEFAULT NULL,
    folded integer[] DEFAULT NULL
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
    -- Where a job of this batch can replace another of it: the place of each id.
    places CONSTANT jsonb := (
        SELECT jsonb_object_agg(i.id, i.place)
        FROM unnest(ids) WITH ORDINALITY AS i (id, place)
        WHERE (SELECT count(k.key) > count(DISTINCT k.key) FROM unnest(unique_keys) AS k (key))
    );
    is_audited boolean := false;
    noted integer;
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
        is_audited := EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL);
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
                    unique_keys, unique_states, periods, ttls, until_starts, discards_on_reentry, folded
                ) WITH ORDINALITY AS u (
                    id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                    unique_key, unique_states, period, ttl, until_start, discard_on_reentry, folded, place
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
                ) IS NOT NULL
                AND CASE WHEN is_audited THEN (
                    -- Whom the first of equal keys met, if anybody, the others have met; else they have met it.
                    SELECT note_duplicates(
                        array_agg(i.kind), array_agg(i.unique_key), array_agg(coalesce(i.holder_id, i.id)),
                        array_agg(coalesce(i.folded, 0) + (i.holder_id IS NOT NULL)::integer)
                    )
                    FROM input AS i
                    WHERE i.holder_id IS NOT NULL OR i.folded > 0
                ) ELSE 0 END IS NOT NULL;
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
                    earlier := (places ->> holder.id::text)::integer;
                    IF earlier IS NOT NULL THEN
                        answers[earlier] := entered;
                    END IF;
                    -- A holder that was to run as soon as it was there has no schedule to keep, nor one that has
                    -- started. One whose time has come has, though it is available now; and so has one that an
                    -- operator gave a time, or let go.
                    IF turn.on_conflict = 'replace_except_schedule' AND (
                        holder.state = 'scheduled' OR (
                            holder.state IN ('available', 'pending')
                            AND holder.attempt = 0
                            AND holder.scheduled_at > holder.created_at
                        )
                    ) THEN
                        turn.scheduled_at := holder.scheduled_at;
                    END IF;
                END IF;

                arrived := clock_timestamp();
                -- For the jobs of a batch time begins at one instant, so that they are worked in the order in which they
                -- were given, not in that of their keys.
                due := coalesce(
                    turn.scheduled_at, CASE WHEN size = 1 THEN arrived ELSE instant END + coalesce(turn.delay, interval '0')
                );
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
    IF is_refused OR folded IS NOT NULL OR 'duplicate' = ANY (outcomes) THEN
        is_audited := EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL);
    END IF;
    IF is_audited THEN
        IF size = 1 THEN
            -- As an expression it costs half of what a query would.
            noted := note_duplicates(
                kinds, unique_keys, ARRAY[(answers[1]).id],
                ARRAY[coalesce(folded[1], 0) + (outcomes[1] <> 'inserted')::integer]
            );
        ELSE
            PERFORM note_duplicates(
                array_agg(u.kind), array_agg(u.unique_key), array_agg((answers[u.place]).id),
                array_agg(coalesce(u.folded, 0) + (u.outcome <> 'inserted')::integer)
            )
            FROM unnest(kinds, unique_keys, folded, outcomes)
                WITH ORDINALITY AS u (kind, unique_key, folded, outcome, place)
            WHERE u.outcome = 'rejected' OR (NOT is_refused AND (u.outcome = 'duplicate' OR u.folded > 0));
        END IF;
    END IF;
    IF NOT is_refused THEN
        PERFORM wake_runners(array_agg(DISTINCT (answers[u.place]).queue))
        FROM generate_series(1, size) AS u (place)
        WHERE outcomes[u.place] = 'inserted' AND (answers[u.place]).ready
        HAVING count(*) > 0;
    END IF;
    RETURN QUERY
    SELECT ids[u.place], outcomes[u.place], successions[u.place], answers[u.place]
    FROM generate_series(1, size) AS u (place)
    WHERE NOT is_refused OR outcomes[u.place] = 'rejected';
END
$$;

-- A single job that ignores duplicates takes no subtransaction here either.
CREATE OR REPLACE FUNCTION enter_job(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    unique_policy jsonb,
    id uuid,
    OUT outcome text,
    OUT replaced uuid,
    OUT entered job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_jobs: one plan, made once, that probes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    new_id CONSTANT uuid := coalesce(id, new_job_id());
    claim record;
    answer record;
BEGIN
    SELECT c.* INTO claim
    FROM job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy) AS c;
    -- Without a subtransaction, of which a transaction of many inserts would soon have more than the snapshots of
    -- others can hold.
    IF id IS NULL AND coalesce(claim.on_conflict, 'ignore') = 'ignore' THEN
        SELECT e.* INTO answer
        FROM insert_each(
            ids => ARRAY[new_id],
            kinds => ARRAY[kind],
            queues => ARRAY[queue],
            args => ARRAY[args],
            metas => ARRAY[meta],
            priorities => ARRAY[coalesce(priority, 0)::smallint],
            max_attempts => ARRAY[coalesce(max_attempts, 25)::smallint],
            scheduled_ats => array_remove(ARRAY[scheduled_at], NULL),
            delays => '{}',
            pendings => '{}',
            unique_keys => ARRAY[claim.unique_key],
            unique_states => ARRAY[claim.unique_states],
            periods => array_remove(ARRAY[claim.period], NULL),
            ttls => array_remove(ARRAY[claim.ttl], NULL),
            until_starts => ARRAY[coalesce(claim.until_start, false)],
            discards_on_reentry => ARRAY[coalesce(claim.discard_on_reentry, false)]
        ) AS e;
        IF answer.outcome <> 'open' THEN
            outcome := answer.outcome;
            entered := answer.holder;
            IF outcome = 'inserted' THEN
                SELECT j.* INTO entered FROM job AS j WHERE j.id = new_id;
            END IF;
            RETURN;
        END IF;
    END IF;

    SELECT r.* INTO answer
    FROM insert_jobs(
        ids => ARRAY[new_id],
        kinds => ARRAY[kind],
        queues => ARRAY[queue],
        args => ARRAY[args],
        metas => ARRAY[meta],
        priorities => ARRAY[coalesce(priority, 0)::smallint],
        max_attempts => ARRAY[coalesce(max_attempts, 25)::smallint],
        scheduled_ats => ARRAY[scheduled_at],
        delays => ARRAY[NULL::interval],
        pendings => ARRAY[false],
        unique_keys => ARRAY[claim.unique_key],
        unique_states => ARRAY[claim.unique_states],
        periods => ARRAY[claim.period],
        ttls => ARRAY[claim.ttl],
        until_starts => ARRAY[coalesce(claim.until_start, false)],
        discards_on_reentry => ARRAY[coalesce(claim.discard_on_reentry, false)],
        on_conflicts => ARRAY[coalesce(claim.on_conflict, 'ignore')],
        -- What the quick way cannot do: another on_conflict, an id that may be there, a claim that is over.
        in_order => true
    ) AS r;
    outcome := answer.outcome;
    replaced := answer.replaced;
    entered := answer.job;
    IF outcome = 'rejected' THEN
        RAISE unique_violation USING
            MESSAGE = format('duplicate: the unique key is held by job %s (%s)', entered.id, entered.state),
            DETAIL = format('{"holder": "%s", "state": "%s"}', entered.id, entered.state),
            HINT = 'Nothing was inserted. To go on with the transaction, insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;
END
$$;

-- The plan that a session keeps fits a table that grows.
CREATE OR REPLACE FUNCTION explain_unique(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL
) RETURNS TABLE (
    canonical text, unique_key text, would_insert boolean, holder uuid, holder_state text,
    holder_age interval, claims_in text[], frees text
)
    LANGUAGE plpgsql STABLE
    ROWS 1
    SET search_path FROM CURRENT
    -- As in enter_job.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    given_id CONSTANT uuid := id;
    claim record;
BEGIN
    SELECT c.* INTO claim
    FROM job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy) AS c;
    -- One row, whether there is a holder or not. An expired claim holds nothing: the insert that
    -- meets it releases it.
    RETURN QUERY
    SELECT
        claim.canonical,
        claim.unique_key,
        (h.id IS NULL OR (claim.on_conflict LIKE 'replace%' AND h.state <> 'running'))
            AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = given_id),
        h.id,
        h.state::text,
        clock_timestamp() - h.created_at,
        state_names(h.unique_states),
        claim_end(h.unique_states, h.until_start, h.unique_until)
    FROM (SELECT claim.unique_key COLLATE "C" AS unique_key) AS c
    LEFT JOIN job AS h
        ON h.unique_key = c.unique_key
        AND h.claims
        AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp());
END
$$;

-- Without a backslash, which means something else where standard_conforming_strings is off.
CREATE OR REPLACE FUNCTION failing_kinds(look_at integer DEFAULT 20000)
RETURNS TABLE (
    kind text, queues text[], retryable bigint, discarded bigint, attempts_used bigint,
    last_failed_at timestamptz, last_error text, last_job uuid, are_all boolean
)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    -- As in queues(): every part stops at a limit, by a walk along an index in its order.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
WITH waiting_jobs AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.attempted_at AS at
    FROM job AS j
    WHERE j.waiting
    ORDER BY j.scheduled_at
    LIMIT look_at
),
discarded_jobs AS MATERIALIZED (
    SELECT j.id, j.kind, j.queue, j.state, j.attempt, j.finalized_at AS at
    FROM job AS j
    WHERE j.state = 'discarded'
    ORDER BY j.id DESC
    LIMIT look_at
),
failed AS (
    SELECT w.id, w.kind, w.queue, w.state, w.attempt, w.at FROM waiting_jobs AS w WHERE w.state = 'retryable'
    UNION ALL
    SELECT d.id, d.kind, d.queue, d.state, d.attempt, d.at FROM discarded_jobs AS d
),
counted AS (
    SELECT
        f.kind,
        array_agg(DISTINCT f.queue) AS queues,
        count(*) FILTER (WHERE f.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE f.state = 'discarded') AS discarded,
        sum(f.attempt)::bigint AS attempts_used,
        (array_agg(f.id ORDER BY f.at DESC NULLS LAST, f.id DESC))[1] AS last_job
    FROM failed AS f
    GROUP BY f.kind
)
SELECT
    c.kind, c.queues, c.retryable, c.discarded, c.attempts_used,
    -- Whatever somebody wrote there by hand must not break the view.
    CASE
        WHEN e.last ->> 'at' ~ '^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]'
            THEN (e.last ->> 'at')::timestamptz
    END,
    e.last ->> 'error',
    c.last_job,
    (SELECT count(*) < look_at FROM waiting_jobs) AND (SELECT count(*) < look_at FROM discarded_jobs)
FROM counted AS c
LEFT JOIN LATERAL (SELECT j.errors -> -1 AS last FROM job AS j WHERE j.id = c.last_job) AS e ON true
ORDER BY c.retryable + c.discarded DESC, c.kind
$$;

-- However many digits there are, it is this function that says what is wrong with them.
CREATE OR REPLACE FUNCTION period_seconds(given text, field text) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
-- Not a cast to interval, which takes months, signs and words, and counts days by the time zone.
DECLARE
    number CONSTANT text := '([0-9]+(?:[.,][0-9]+)?)';
    sizes CONSTANT integer[] := ARRAY[604800, 86400, 3600, 60, 1];
    parts CONSTANT text[] := regexp_match(given, format(
        '^P(?:%1$sW)?(?:%1$sD)?(?:T(?:%1$sH)?(?:%1$sM)?(?:%1$sS)?)?$', number
    ));
    has_fraction boolean := false;
    figure text;
    seconds numeric := 0;
    problem text;
BEGIN
    IF parts IS NULL OR right(given, 1) IN ('P', 'T') THEN
        problem := CASE
            WHEN given ~ '^-?P' AND strpos(given, '-') > 0 THEN 'must not be negative'
            WHEN given ~ '^P([0-9.,WD]*[0-9]M|[0-9.,WDTHMS]*[0-9]Y)' THEN 'years and months have no fixed length'
            ELSE 'is not an ISO 8601 duration'
        END;
    ELSE
        FOR unit IN 1..5 LOOP
            CONTINUE WHEN parts[unit] IS NULL;
            IF has_fraction THEN
                problem := coalesce(problem, 'only the last unit may have a fraction');
            END IF;
            has_fraction := parts[unit] ~ '[.,]';
            figure := CASE WHEN has_fraction THEN rtrim(replace(parts[unit], ',', '.'), '0') ELSE parts[unit] END;
            -- More digits than numeric can hold could not be cast.
            problem := coalesce(problem, CASE
                WHEN figure ~ '^0*[1-9][0-9]{20}' THEN 'must not be longer than 100 years'
                WHEN figure ~ '[.][0-9]{20}' THEN 'must be whole microseconds'
            END);
            EXIT WHEN problem IS NOT NULL;
            seconds := seconds + figure::numeric * sizes[unit];
        END LOOP;
        problem := CASE
            WHEN problem IS NOT NULL THEN problem
            WHEN seconds > 3155760000 THEN 'must not be longer than 100 years'
            WHEN seconds * 1000000 <> trunc(seconds * 1000000) THEN 'must be whole microseconds'
            WHEN seconds = 0 THEN 'must be longer than nothing'
            WHEN field = 'window' AND seconds <> trunc(seconds) THEN 'must be whole seconds'
        END;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                CASE field WHEN 'period' THEN 'invalid %s: %s: %s' ELSE 'invalid unique policy: %s: %s: %s' END,
                field, problem, to_json(given)
            ),
            HINT = 'An ISO 8601 duration of weeks, days, hours, minutes or seconds, such as PT15M or P7D.';
    END IF;
    RETURN seconds;
END
$$;

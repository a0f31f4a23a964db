-- Inserting one job or a batch of jobs, whatever each does with a duplicate.

CREATE FUNCTION _jobs_by_key(
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
    groups jsonb
)
RETURNS TABLE (run new_job[], places integer[], unique_key text, changes_it_later boolean)
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        array_agg(s.job ORDER BY s.place), array_agg(s.place ORDER BY s.place), min((s.job).unique_key COLLATE "C"),
        bool_or(s.changes_it_later)
    FROM (
        SELECT
            r.job, r.place, r.changes_it_later,
            -- An update goes with the one before it, unless that has the same id: then it is sent again.
            count(*) FILTER (WHERE NOT coalesce(r.is_update AND r.alike = r.alike_before AND r.id <> r.id_before, false))
                OVER (ORDER BY r.unique_key, r.id_alone, r.place) AS number
        FROM (
            SELECT
                w.*,
                bool_or(w.is_update OR w.on_conflict LIKE 'replace%' OR w.on_conflict = 'preempt')
                    OVER (PARTITION BY w.unique_key) AS changes_it_later,
                lag(w.alike) OVER in_turn AS alike_before,
                lag(w.id) OVER in_turn AS id_before
            FROM (
                SELECT
                    u.id, u.place::integer AS place, u.unique_key COLLATE "C" AS unique_key,
                    -- Jobs without a key can still meet by their ids, so those are taken in one order, too.
                    CASE WHEN u.unique_key IS NULL THEN u.id END AS id_alone,
                    o.on_conflict, o.on_conflict LIKE 'update %' AS is_update,
                    (
                        u.unique_key COLLATE "C", o.on_conflict, coalesce(u.ttl::text, ''),
                        coalesce(u.kind, kinds[1]) COLLATE "C"
                    ) AS alike,
                    (
                        u.place, u.id, true, coalesce(u.kind, kinds[1]), coalesce(u.queue, queues[1]), u.args,
                        coalesce(u.meta, metas[1]), coalesce(u.priority, priorities[1]),
                        coalesce(u.max_attempts, _jobs_by_key.max_attempts[1]), u.scheduled_at, u.delay, u.is_pending,
                        u.unique_key,
                        CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, _jobs_by_key.unique_states[1]) END,
                        u.period, u.ttl, coalesce(u.until_start, until_starts[1]),
                        coalesce(u.discard_on_reentry, discards_on_reentry[1]), o.on_conflict,
                        groups -> u.place::integer - 1 ->> 'key', (groups -> u.place::integer - 1 ->> 'limit')::smallint,
                        (groups -> u.place::integer - 1 ->> 'in_order')::boolean
                    )::new_job AS job
                FROM unnest(
                    ids, kinds, queues, _jobs_by_key.args, metas, priorities, _jobs_by_key.max_attempts, scheduled_ats, delays,
                    pendings, unique_keys, _jobs_by_key.unique_states, periods, ttls, until_starts, discards_on_reentry,
                    on_conflicts
                ) WITH ORDINALITY AS u (
                    id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                    unique_key, unique_states, period, ttl, until_start, discard_on_reentry, on_conflict, place
                )
                CROSS JOIN LATERAL (SELECT coalesce(u.on_conflict, on_conflicts[1]) COLLATE "C") AS o (on_conflict)
            ) AS w
            WINDOW in_turn AS (ORDER BY w.unique_key, w.id_alone, w.place)
        ) AS r
    ) AS s
    GROUP BY s.number
    ORDER BY s.number;
END
$$;
COMMENT ON FUNCTION _jobs_by_key(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], jsonb
) IS
    'The jobs of a batch in the one order in which all batches take their keys. A row has one job, or updates of one key that follow each other and can be applied together. changes_it_later: whether a job of the batch with the same key may change its holder.';

CREATE FUNCTION _limit_wait(max_wait interval) RETURNS text
    LANGUAGE sql VOLATILE
    -- 0 would mean for ever, and PostgreSQL counts up to 24 days.
    RETURN set_config(
        'lock_timeout',
        least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
        true
    );
COMMENT ON FUNCTION _limit_wait(interval) IS
    'Sets lock_timeout to max_wait, until the transaction ends or it is set again.';

CREATE FUNCTION _wake_for(jobs uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    queues CONSTANT text[] := ARRAY(
        SELECT DISTINCT j.queue::text FROM job AS j WHERE j.id = ANY (jobs) AND j.state = 'available'
    );
BEGIN
    PERFORM _wake_runners(queues);
END
$$;
COMMENT ON FUNCTION _wake_for(uuid[]) IS
    'Wakes idle runners, at the commit, for those of these jobs that are available: the jobs that the transaction inserted, and those that it locked, since a fetch passed them by.';

CREATE FUNCTION _insert_one(given new_job, max_wait interval, OUT outcome text, OUT replaced uuid, OUT answered job)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in _insert_unique.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    caller_lock_timeout text;
    step record;
    former job;
BEGIN
    -- Without a subtransaction where none is needed: a transaction of many inserts would soon have more than the snapshots of
    -- others can hold.
    IF max_wait IS NULL THEN
        step := _settle_jobs(ARRAY[given], NULL, false);
    ELSE
        caller_lock_timeout := current_setting('lock_timeout');
        PERFORM _limit_wait(max_wait);
        BEGIN
            step := _settle_jobs(ARRAY[given], NULL, false);
        EXCEPTION
            WHEN lock_not_available THEN
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                outcome := 'busy';
                RETURN;
        END;
        PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    END IF;
    outcome := step.outcome;
    replaced := step.replaced;
    answered := step.answered;
    former := step.former;
    IF outcome IN ('duplicate', 'updated', 'covered', 'rejected')
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL)
    THEN
        PERFORM _note_duplicates(ARRAY[given.kind], ARRAY[given.unique_key], ARRAY[answered.id], ARRAY[1]);
    END IF;
    IF outcome IN ('inserted', 'updated', 'covered') THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle) THEN
            PERFORM _wake_for(ARRAY[answered.id, former.id]);
        END IF;
        IF former.state = 'cancelled' AND former.worker IS NOT NULL THEN
            PERFORM _tell_runners(ARRAY[former.worker]);
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION _insert_one(new_job, interval) IS
    'Inserts a job, or does with the job that claims its key as its on_conflict says. outcome: inserted, duplicate, updated, covered, rejected or busy (max_wait ran out, nothing was inserted). answered: the new job or the holder. replaced: the job that the new one took the place of. The front door for people is insert_job.';

CREATE FUNCTION _insert_batch(
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
    folded integer[] DEFAULT NULL,
    groups jsonb DEFAULT NULL
)
RETURNS TABLE (
    place integer, outcome text, replaced uuid, state job_state, created_at timestamptz, scheduled_at timestamptz,
    unique_until timestamptz, job_id uuid, job job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in _insert_unique.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    instant CONSTANT timestamptz := clock_timestamp();
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    size CONSTANT integer := coalesce(cardinality(ids), 0);
    batch record;
    step record;
    run new_job[];
    done integer;
    here integer;
    is_rejected boolean := false;
    key_at_hand text;
    -- The places of the duplicates of the key at hand.
    duplicates integer[] := '{}';
    -- The runners whose jobs were preempted.
    stopped uuid[] := '{}';
    -- The jobs that gave up their claims.
    released uuid[] := '{}';
    outcomes text[] := array_fill(NULL::text, ARRAY[size]);
    successions uuid[] := array_fill(NULL::uuid, ARRAY[size]);
    answered uuid[] := array_fill(NULL::uuid, ARRAY[size]);
    -- Holders that are not locked, as they were seen: they may be gone at the end.
    holders job[] := array_fill(NULL::job, ARRAY[size]);
BEGIN
    IF max_wait IS NOT NULL THEN
        PERFORM _limit_wait(max_wait);
    END IF;

    -- In a block, so that a rejection undoes the whole batch and nothing else.
    BEGIN
        IF NOT in_order THEN
            -- In a block of its own, so that a contested row gives every lock back before the keys are taken one by one.
            BEGIN
                RETURN QUERY
                SELECT
                    a.place, a.outcome, a.replaced, a.state, a.created_at, a.scheduled_at, a.unique_until, (a.job).id, a.job
                FROM _insert_unique(
                    ids, kinds, queues, _insert_batch.args, metas, priorities, _insert_batch.max_attempts, scheduled_ats,
                    delays, pendings, unique_keys, _insert_batch.unique_states, periods, ttls, until_starts,
                    discards_on_reentry, folded, all_or_nothing => true, groups => groups
                ) AS a;
                PERFORM set_config('lock_timeout', caller_lock_timeout, true);
                RETURN;
            EXCEPTION
                WHEN SQLSTATE 'UQ001' THEN
                    NULL;
            END;
        END IF;

        -- Key by key in one fixed order, each settled before the next is touched.
        FOR batch IN
            SELECT b.*
            FROM _jobs_by_key(
                ids, kinds, queues, _insert_batch.args, metas, priorities, _insert_batch.max_attempts, scheduled_ats, delays,
                pendings, unique_keys, _insert_batch.unique_states, periods, ttls, until_starts, discards_on_reentry,
                on_conflicts, groups
            ) AS b
        LOOP
            IF batch.unique_key IS DISTINCT FROM key_at_hand THEN
                key_at_hand := batch.unique_key;
                duplicates := '{}';
            END IF;
            run := batch.run;
            done := 0;
            WHILE done < cardinality(batch.places) LOOP
                SELECT s.* INTO step
                FROM _settle_jobs(run, CASE WHEN size > 1 THEN instant END, batch.changes_it_later) AS s;
                IF step.replaced IS NOT NULL THEN
                    -- It was the holder of the earlier duplicates: they name the job that lives.
                    FOREACH here IN ARRAY duplicates LOOP
                        answered[here] := (step.answered).id;
                        holders[here] := NULL;
                    END LOOP;
                    successions[batch.places[done + 1]] := step.replaced;
                ELSIF (step.former).id IS NOT NULL THEN
                    duplicates := '{}';
                END IF;
                IF (step.former).id IS NOT NULL THEN
                    released := released || (step.former).id;
                    IF (step.former).state = 'cancelled' AND (step.former).worker IS NOT NULL THEN
                        stopped := stopped || (step.former).worker;
                    END IF;
                END IF;
                is_rejected := is_rejected OR step.outcome = 'rejected';
                FOREACH here IN ARRAY batch.places[done + 1 : done + step.settled] LOOP
                    outcomes[here] := step.outcome;
                    answered[here] := (step.answered).id;
                    IF step.outcome IN ('duplicate', 'rejected') THEN
                        holders[here] := step.answered;
                    END IF;
                END LOOP;
                IF step.outcome IN ('duplicate', 'updated', 'covered') THEN
                    duplicates := duplicates || batch.places[done + 1 : done + step.settled];
                END IF;
                done := done + step.settled;
                run := run[step.settled + 1 :];
            END LOOP;
        END LOOP;
        IF is_rejected THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'rejected';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ001' THEN
            NULL;
        WHEN lock_not_available THEN
            IF max_wait IS NULL THEN
                RAISE;
            END IF;
            PERFORM set_config('lock_timeout', caller_lock_timeout, true);
            outcome := 'busy';
            RETURN NEXT;
            RETURN;
    END;
    PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    IF (is_rejected OR folded IS NOT NULL OR outcomes && '{duplicate, updated, covered}')
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL)
    THEN
        PERFORM _note_duplicates(
            array_agg(coalesce(u.kind, kinds[1])), array_agg(u.unique_key), array_agg(answered[u.place]),
            array_agg(coalesce(u.folded, 0) + (u.outcome <> 'inserted')::integer)
        )
        FROM unnest(kinds, unique_keys, folded, outcomes)
            WITH ORDINALITY AS u (kind, unique_key, folded, outcome, place)
        WHERE u.outcome = 'rejected' OR (NOT is_rejected AND (u.outcome IN ('duplicate', 'updated', 'covered') OR u.folded > 0));
    END IF;
    IF NOT is_rejected THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle) THEN
            PERFORM _wake_for(
                released || ARRAY(
                    SELECT u.id
                    FROM unnest(answered, outcomes) AS u (id, outcome)
                    WHERE u.outcome IN ('inserted', 'updated', 'covered')
                )
            );
        END IF;
        IF cardinality(stopped) > 0 THEN
            PERFORM _tell_runners(stopped);
        END IF;
    END IF;
    -- Each job as it is now, and once: a holder of many updates is large.
    RETURN QUERY
    SELECT
        u.place, u.outcome, u.replaced, coalesce(j.state, (holders[u.place]).state), NULL::timestamptz, NULL::timestamptz,
        NULL::timestamptz, u.id, CASE WHEN u.is_first THEN coalesce(j.job, holders[u.place]) END
    FROM (
        SELECT
            a.place::integer AS place, a.outcome, a.replaced, a.id,
            row_number() OVER (PARTITION BY a.id ORDER BY a.place) = 1 AS is_first
        FROM unnest(outcomes, successions, answered) WITH ORDINALITY AS a (outcome, replaced, id, place)
        WHERE NOT is_rejected OR a.outcome = 'rejected'
    ) AS u
    LEFT JOIN LATERAL (
        SELECT c.state, CASE WHEN u.is_first THEN c::job END AS job
        FROM job AS c
        WHERE c.id = u.id AND NOT is_rejected
        LIMIT 1
    ) AS j ON true;
END
$$;
COMMENT ON FUNCTION _insert_batch(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], boolean, interval, integer[], jsonb
) IS
    'Inserts a batch of jobs, all or nothing, as _insert_unique where that is enough, else key by key. Answers inserted, duplicate (job is the holder), updated (the holder was changed), covered (the holder starts after the commit), rejected (nothing was inserted, and only the rejected places are answered), or once, without a place, busy (max_wait ran out, nothing was inserted). job_id: the job of the answer. job: the same, for the first place that it answers. in_order takes key by key at once, as on_conflict other than ignore, equal keys in the batch and ids that may exist need. folded, groups: as in _insert_unique. The front door for people is insert_jobs.';

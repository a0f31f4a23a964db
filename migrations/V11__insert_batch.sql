-- Inserting one job or a batch of jobs, whatever each does with a duplicate.

CREATE FUNCTION _jobs_by_key(jobs new_job[]) RETURNS TABLE (run new_job[], changes_it_later boolean)
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY
    SELECT array_agg(s.job ORDER BY s.place), bool_or(s.changes_it_later)
    FROM (
        SELECT
            r.job, r.place, r.changes_it_later,
            -- An update or a replacement goes with the one before it, unless that has the same id: then it is sent again.
            count(*) FILTER (WHERE NOT coalesce(r.folds AND r.alike = r.alike_before AND r.id <> r.id_before, false))
                OVER (ORDER BY r.comes_last, r.unique_key, r.id_alone, r.place) AS number
        FROM (
            SELECT
                w.*,
                bool_or(w.is_update OR w.is_replacement) OVER (PARTITION BY w.unique_key) AS changes_it_later,
                w.is_update OR (w.is_replacement AND w.may_exist IS NOT TRUE) AS folds,
                lag(w.alike) OVER in_turn AS alike_before,
                lag(w.id) OVER in_turn AS id_before
            FROM (
                SELECT
                    u::new_job AS job, u.id, u.place, u.unique_key, u.may_exist, k.is_update, k.is_replacement,
                    -- Jobs without a key can still meet by their ids, so those are taken in one order, too.
                    CASE WHEN u.unique_key IS NULL THEN u.id END AS id_alone,
                    -- An id that an earlier job of the batch has, under another key: that job comes first.
                    u.may_exist AND first_value(u.unique_key) OVER (PARTITION BY u.id ORDER BY u.place)
                        IS DISTINCT FROM u.unique_key AS comes_last,
                    (
                        u.unique_key, u.on_conflict, u.changes::text, u.kind COLLATE "C",
                        CASE
                            WHEN k.is_update THEN coalesce(u.ttl::text, '')
                            ELSE (
                                u.queue, u.group_key, u.in_order, u.unique_states, u.scheduled_at, u.delay, u.is_pending,
                                u.may_exist
                            )::text
                        END
                    ) AS alike
                FROM unnest(jobs) AS u
                CROSS JOIN LATERAL (
                    SELECT u.on_conflict = 'update', u.on_conflict LIKE 'replace%' OR u.on_conflict = 'preempt'
                ) AS k (is_update, is_replacement)
            ) AS w
            WINDOW in_turn AS (ORDER BY w.comes_last, w.unique_key, w.id_alone, w.place)
        ) AS r
    ) AS s
    GROUP BY s.number
    ORDER BY s.number;
END
$$;
COMMENT ON FUNCTION _jobs_by_key IS 'The jobs of a batch in the one order in which every batch locks its keys. A row of run has one job, or successive updates or replacements of one key that can be applied together. changes_it_later: whether a job of the batch with the same key may change its holder.';

CREATE FUNCTION _limit_wait(max_wait interval) RETURNS text
    LANGUAGE sql VOLATILE
    -- A lock_timeout of 0 means no limit. The largest is 24 days.
    RETURN set_config(
        'lock_timeout',
        least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
        true
    );
COMMENT ON FUNCTION _limit_wait IS 'Sets lock_timeout to max_wait for the rest of the transaction. Returns the new setting.';

CREATE FUNCTION _wake_for(jobs uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM _wake_runners(ARRAY(SELECT DISTINCT j.queue::text FROM job AS j WHERE j.id = ANY (jobs) AND j.state = 'available'));
END
$$;
COMMENT ON FUNCTION _wake_for IS 'Notifies idle runners at the commit about those of these jobs, inserted or locked here, that are available.';

CREATE FUNCTION _insert_one(given new_job, max_wait interval) RETURNS insert_answer
    LANGUAGE plpgsql VOLATILE
    -- One plan, made once, that probes by index however small the table was when it was made. What enable_seqscan
    -- adds to a cost would set off the JIT. It holds for the functions that are called here as well.
AS $$
DECLARE
    caller_lock_timeout text;
    lock_timeout text;
    step record;
    answer insert_answer;
BEGIN
    -- Without a subtransaction where none is needed: a transaction of many inserts would soon have more than the snapshots of
    -- others can hold.
    IF max_wait IS NULL THEN
        step := _settle_jobs(ARRAY[given], NULL, false);
    ELSE
        caller_lock_timeout := current_setting('lock_timeout');
        -- Assignments, which cost less than PERFORM.
        lock_timeout := _limit_wait(max_wait);
        BEGIN
            step := _settle_jobs(ARRAY[given], NULL, false);
        EXCEPTION
            WHEN lock_not_available THEN
                lock_timeout := set_config('lock_timeout', caller_lock_timeout, true);
                answer.outcome := 'busy';
                RETURN answer;
        END;
        lock_timeout := set_config('lock_timeout', caller_lock_timeout, true);
    END IF;
    answer := step.answer;
    IF answer.outcome <> 'inserted' THEN
        IF EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL) THEN
            PERFORM _note_duplicates(ARRAY[given.kind], ARRAY[given.unique_key], ARRAY[answer.id], ARRAY[1]);
        END IF;
    END IF;
    IF answer.outcome IN ('inserted', 'updated', 'covered') THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle) THEN
            PERFORM _wake_for(ARRAY[answer.id, step.former]);
        END IF;
        IF step.stopped IS NOT NULL THEN
            PERFORM _tell_runners(ARRAY[step.stopped]);
        END IF;
    END IF;
    RETURN answer;
END
$$;
COMMENT ON FUNCTION _insert_one IS 'Inserts one job, or treats the holder of its key as its on_conflict says, as insert_job does.';

CREATE FUNCTION _insert_one_by_one(
    jobs new_job[], instant timestamptz, OUT answers insert_answer[], OUT woken uuid[], OUT stopped uuid[]
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    batch record;
    step record;
    run new_job[];
    answer insert_answer;
    replaced uuid;
    settled integer;
    done integer;
    size integer;
    key_at_hand text;
    -- The places of the duplicates of the key at hand.
    duplicates integer[] := '{}';
    here integer;
BEGIN
    answers := array_fill(NULL::insert_answer, ARRAY[(SELECT max(u.place) FROM unnest(jobs) AS u)]);
    -- Key by key in one fixed order, each settled before the next is touched.
    FOR batch IN SELECT b.* FROM _jobs_by_key(jobs) AS b LOOP
        IF (batch.run[1]).unique_key IS DISTINCT FROM key_at_hand THEN
            key_at_hand := (batch.run[1]).unique_key;
            duplicates := '{}';
        END IF;
        done := 0;
        -- All at once, and fewer where the holder takes few. Else the work would grow with the square of their number.
        size := cardinality(batch.run);
        WHILE done < cardinality(batch.run) LOOP
            run := batch.run[done + 1 : done + size];
            step := _settle_jobs(run, instant, batch.changes_it_later);
            settled := coalesce(step.settled, 1);
            answer := step.answer;
            IF answer.replaced IS NOT NULL THEN
                -- It was the holder of the earlier duplicates: they name the job that lives.
                FOREACH here IN ARRAY duplicates LOOP
                    answers[here].id := answer.id;
                    answers[here].job := NULL;
                END LOOP;
            ELSIF step.former IS NOT NULL OR step.passes_on THEN
                duplicates := '{}';
            END IF;
            woken := woken || step.former;
            IF step.stopped IS NOT NULL THEN
                stopped := stopped || step.stopped;
            END IF;
            IF answer.outcome IN ('inserted', 'updated', 'covered') THEN
                woken := woken || answer.id;
            END IF;
            replaced := answer.replaced;
            FOR nth IN 1..settled LOOP
                here := (run[nth]).place;
                IF step.replaced_in_turn THEN
                    answer.id := (run[nth]).id;
                    answer.replaced := replaced;
                    replaced := answer.id;
                ELSIF nth = 2 THEN
                    -- Applied to the job, whether that was new or there before.
                    answer.outcome := 'updated';
                    answer.created_at := NULL;
                END IF;
                answer.place := here;
                answers[here] := answer;
                IF answer.outcome IN ('duplicate', 'updated', 'covered') AND NOT step.passes_on THEN
                    duplicates := duplicates || here;
                END IF;
            END LOOP;
            done := done + settled;
            -- One more than the holder took shows that it is full.
            size := CASE WHEN settled < cardinality(run) THEN settled + 1 ELSE 2 * size END;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _insert_one_by_one IS 'Settles the jobs of a batch one by one, in the order in which every batch locks its keys. answers: one for each place, as it was when the job was settled. woken: the jobs that may start. stopped: the runners whose running jobs were cancelled.';

CREATE FUNCTION _insert_batch(
    jobs new_job[], one_by_one boolean, is_each boolean, max_wait interval, folded integer[], keys text[] DEFAULT NULL
) RETURNS SETOF insert_answer
    LANGUAGE plpgsql VOLATILE
    -- As in _insert_one.
AS $$
DECLARE
    -- The jobs of a batch are due at one time, whenever their keys are taken.
    instant CONSTANT timestamptz := CASE WHEN cardinality(jobs) > 1 THEN clock_timestamp() END;
    can_be_undone CONSTANT boolean := max_wait IS NOT NULL
        OR (one_by_one AND NOT is_each AND EXISTS (SELECT FROM unnest(jobs) AS u WHERE u.on_conflict <> 'ignore'));
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    settled record;
    is_rejected boolean := false;
BEGIN
    keys := coalesce(keys, ARRAY(SELECT u.unique_key FROM unnest(jobs) AS u));
    -- Rivals of a row that was written in a block wait until the whole transaction ends, also after a rollback to a savepoint.
    -- So a batch that nothing can undo has no block.
    IF NOT can_be_undone THEN
        settled := CASE WHEN one_by_one THEN _insert_one_by_one(jobs, instant) ELSE _insert_unique(jobs, keys) END;
    ELSE
        IF max_wait IS NOT NULL THEN
            PERFORM _limit_wait(max_wait);
        END IF;
        -- A rejection undoes the whole batch and nothing else.
        BEGIN
            settled := CASE WHEN one_by_one THEN _insert_one_by_one(jobs, instant) ELSE _insert_unique(jobs, keys) END;
            is_rejected := NOT is_each AND EXISTS (SELECT FROM unnest(settled.answers) AS a WHERE a.outcome = 'rejected');
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
                RETURN NEXT (NULL, 'busy', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::insert_answer;
                RETURN;
        END;
        PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    END IF;
    IF EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL) THEN
        PERFORM _note_duplicates(
            array_agg(u.kind), array_agg(u.unique_key), array_agg(coalesce(a.id, u.id)),
            array_agg(coalesce(folded[u.place], 0) + coalesce(a.outcome <> 'inserted', false)::integer)
        )
        FROM unnest(jobs) AS u
        LEFT JOIN unnest(settled.answers) AS a ON a.place = u.place
        WHERE CASE
            WHEN is_rejected THEN a.outcome = 'rejected'
            ELSE a.outcome <> 'inserted' OR folded[u.place] > 0
        END
        HAVING count(*) > 0;
    END IF;
    IF NOT is_rejected THEN
        IF EXISTS (
            SELECT FROM runner AS r
            WHERE r.idle AND CASE
                WHEN settled.woken IS NULL THEN r.queues && ARRAY(SELECT u.queue FROM unnest(jobs) AS u)
                ELSE settled.woken <> '{}'
            END
        ) THEN
            PERFORM _wake_for(coalesce(settled.woken, ARRAY(SELECT u.id FROM unnest(jobs) AS u)));
        END IF;
        IF settled.stopped IS NOT NULL THEN
            PERFORM _tell_runners(settled.stopped);
        END IF;
    END IF;
    IF NOT one_by_one THEN
        RETURN QUERY SELECT a.* FROM unnest(settled.answers) AS a;
        RETURN;
    END IF;
    -- Each job as it is now, and once: a holder of many updates is large.
    RETURN QUERY
    SELECT
        a.place, a.outcome, a.replaced, a.id, coalesce(j.state, a.state), a.created_at, NULL::timestamptz,
        NULL::timestamptz, a.unique_key, CASE WHEN a.is_first THEN coalesce(j.job, a.job) END, e.place
    FROM (
        SELECT u.*, row_number() OVER (PARTITION BY u.id ORDER BY u.place) = 1 AS is_first
        FROM unnest(settled.answers) AS u
        WHERE NOT is_rejected OR u.outcome = 'rejected'
    ) AS a
    LEFT JOIN LATERAL (
        SELECT c.state, CASE WHEN a.is_first THEN c::job END AS job
        FROM job AS c
        WHERE c.id = a.id AND NOT is_rejected
        LIMIT 1
    ) AS j ON true
    LEFT JOIN unnest(settled.answers) AS e ON is_rejected AND e.id = a.id AND e.created_at IS NOT NULL
    ORDER BY a.place;
END
$$;
COMMENT ON FUNCTION _insert_batch IS 'Inserts a batch, all or none. one_by_one: with _insert_one_by_one, for another on_conflict than ignore, equal keys, or ids that may exist. Else with _insert_unique. is_each: a rejection concerns only its own job. Else only the rejected places are returned. busy comes once, without a place. folded: for each place, how many other inputs it stands for. keys: those of the jobs. Null: not at hand.';

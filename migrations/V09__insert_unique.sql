-- Inserting jobs that ignore duplicates.

CREATE FUNCTION new_job_id() RETURNS uuid
    -- In PL/pgSQL, where it takes a third of the time.
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
DECLARE
    microseconds CONSTANT bigint := trunc(extract(epoch FROM clock_timestamp()) * 1000000);
BEGIN
    -- RFC 9562, version 7: milliseconds, then microseconds as twelve bits, then random ones, of which version 4 has the variant
    -- in the right place.
    RETURN lpad(to_hex(microseconds / 1000), 12, '0')
        || '7'
        || lpad(to_hex(microseconds % 1000 * 4096 / 1000), 3, '0')
        || substr(replace(gen_random_uuid()::text, '-', ''), 17);
END
$$;
COMMENT ON FUNCTION new_job_id() IS
    'A new UUIDv7. Ids follow the clock to the microsecond.';

-- Three ways lead into the job table, and each is one statement of the client (src/store/insert):
--
--   plain       rows without a key: INSERT, and nothing else.
--   unique      _insert_unique: a look for holders, then INSERT of the rows that have none. Each row is
--               settled for itself: inserted, duplicate, or contested, where its key takes more than a look.
--   one by one  _insert_batch: the batch is all or nothing. It tries the unique way in a subtransaction. Where a row is
--               contested, or asks for more than ignore, it takes the keys one by one, in their order.
--
-- In all arrays, a place stands for a job. An array of one element stands for all places, an empty one for nulls.

CREATE FUNCTION _not_by_scan(claims boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    COST 1000000
AS $$
BEGIN
    RETURN claims;
END
$$;
COMMENT ON FUNCTION _not_by_scan(boolean) IS
    'Returns its argument, at a high declared price, which the planner counts for each row that a scan of the table would have to ask it about. Beside a condition that an index on claiming jobs implies, it is never called. It keeps a statement that is planned while the table is small, and kept, from reading the whole table later.';

CREATE FUNCTION _contested(all_or_nothing boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF all_or_nothing THEN
        RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'contested';
    END IF;
    RETURN 'contested';
END
$$;
COMMENT ON FUNCTION _contested(boolean) IS
    'The outcome of a job that _insert_unique cannot settle. Error UQ001 where that undoes the whole batch.';

CREATE FUNCTION _insert_unique(
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
    folded integer[] DEFAULT NULL,
    max_wait interval DEFAULT NULL,
    all_or_nothing boolean DEFAULT false,
    groups jsonb DEFAULT NULL
)
RETURNS TABLE (
    place integer, outcome text, replaced uuid, state job_state, created_at timestamptz, scheduled_at timestamptz,
    unique_until timestamptz, job job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- One plan, made once, that probes by index however small the table was when it was made. What enable_seqscan
    -- adds to a cost would set off the JIT.
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
    -- The places of the jobs whose key has a holder.
    held bigint[];
    is_entered boolean := false;
    violated text;
BEGIN
    IF max_wait IS NOT NULL THEN
        PERFORM set_config(
            'lock_timeout',
            -- 0 would mean for ever, and PostgreSQL counts up to 24 days.
            least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
            true
        );
    END IF;
    -- First a look, which waits for no transaction that changes a holder. The index alone does not tell a duplicate: a job
    -- that does not claim its key in its first state meets no entry there. After a look a plain INSERT is enough. It probes
    -- the index once, where ON CONFLICT probes it twice. It fails where a rival commits in between, and then the next look
    -- finds the jobs of the rival.
    FOR round IN 1..3 LOOP
        -- A lateral subquery is a probe for each key, where the planner would make a join with all claims of EXISTS.
        SELECT coalesce(array_agg(k.place), '{}') INTO held
        FROM unnest(unique_keys) WITH ORDINALITY AS k (key, place)
        CROSS JOIN LATERAL (SELECT FROM job AS c WHERE c.unique_key = k.key AND c.claims LIMIT 1) AS c;
        BEGIN
            INSERT INTO job AS j (
                id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                unique_key, unique_states, unique_until, until_start, discard_on_reentry, group_key, group_limit, in_order
            )
            SELECT
                u.id, coalesce(u.kind, kinds[1]), coalesce(u.queue, queues[1]), u.args, coalesce(u.meta, metas[1]),
                coalesce(u.priority, priorities[1]), coalesce(u.max_attempts, _insert_unique.max_attempts[1]),
                instant, d.due_at,
                CASE WHEN u.is_pending THEN 'pending' WHEN d.due_at > instant THEN 'scheduled' ELSE 'available' END
                    ::job_state,
                u.unique_key,
                CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, _insert_unique.unique_states[1]) END,
                coalesce(_length_after(instant, u.period), _length_after(greatest(instant, d.due_at), u.ttl)),
                coalesce(u.until_start, until_starts[1]), coalesce(u.discard_on_reentry, discards_on_reentry[1]),
                groups -> u.place::integer - 1 ->> 'key', (groups -> u.place::integer - 1 ->> 'limit')::smallint,
                (groups -> u.place::integer - 1 ->> 'in_order')::boolean
            FROM unnest(
                ids, kinds, queues, _insert_unique.args, metas, priorities, _insert_unique.max_attempts, scheduled_ats,
                delays, pendings, unique_keys, _insert_unique.unique_states, periods, ttls, until_starts,
                discards_on_reentry
            ) WITH ORDINALITY AS u (
                id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                unique_key, unique_states, period, ttl, until_start, discard_on_reentry, place
            )
            CROSS JOIN LATERAL (SELECT coalesce(u.scheduled_at, instant + u.delay, instant)) AS d (due_at)
            WHERE u.place NOT IN (SELECT p.place FROM unnest(held) AS p (place))
            -- One fixed order for all, so that two batches can never deadlock.
            ORDER BY u.unique_key COLLATE "C";
            is_entered := true;
            EXIT;
        EXCEPTION
            WHEN unique_violation THEN
                GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
                IF violated <> 'job_unique_key' THEN
                    RAISE;
                END IF;
        END;
    END LOOP;
    IF max_wait IS NOT NULL THEN
        -- The keys are taken. The commit may have waits of its own.
        PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    END IF;
    IF NOT is_entered THEN
        outcome := _contested(all_or_nothing);
        RETURN NEXT;
        RETURN;
    END IF;

    -- A holder that ended meanwhile, and an expired claim, take more than a look.
    IF cardinality(held) > 0 THEN
        RETURN QUERY
        SELECT
            u.place::integer, CASE WHEN h.holder IS NULL THEN _contested(all_or_nothing) ELSE 'duplicate' END,
            NULL::uuid, NULL::job_state, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, h.holder
        FROM unnest(unique_keys) WITH ORDINALITY AS u (unique_key, place)
        LEFT JOIN LATERAL (
            SELECT c::job AS holder
            FROM job AS c
            WHERE c.unique_key = u.unique_key AND c.claims
                AND (c.unique_until IS NULL OR c.unique_until > clock_timestamp())
            LIMIT 1
        ) AS h ON true
        -- IS TRUE: a filter before the probes, not a join after them.
        WHERE (u.place IN (SELECT p.place FROM unnest(held) AS p (place))) IS TRUE;
    END IF;
    IF (cardinality(held) > 0 OR folded IS NOT NULL)
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL)
    THEN
        PERFORM _note_duplicates(
            array_agg(coalesce(u.kind, kinds[1])), array_agg(u.unique_key), array_agg(coalesce(h.id, u.id)),
            array_agg(coalesce(u.folded, 0) + (h.id IS NOT NULL)::integer)
        )
        FROM unnest(ids, kinds, unique_keys, folded) WITH ORDINALITY AS u (id, kind, unique_key, folded, place)
        LEFT JOIN LATERAL (
            SELECT c.id
            FROM job AS c
            WHERE c.unique_key = u.unique_key AND c.claims
                AND (c.unique_until IS NULL OR c.unique_until > clock_timestamp())
            LIMIT 1
        ) AS h ON u.place = ANY (held)
        WHERE h.id IS NOT NULL OR (u.folded > 0 AND u.place <> ALL (held));
    END IF;

    IF cardinality(held) < size THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle AND r.queues && _insert_unique.queues) THEN
            PERFORM _wake_runners(array_agg(DISTINCT j.queue::text))
            FROM job AS j
            WHERE j.id = ANY (ids) AND j.state = 'available'
            HAVING count(*) > 0;
        END IF;
        IF has_times THEN
            RETURN QUERY
            SELECT
                u.place::integer, 'inserted', NULL::uuid, j.state, j.created_at, j.scheduled_at, j.unique_until, NULL::job
            FROM unnest(ids) WITH ORDINALITY AS u (id, place)
            INNER JOIN job AS j ON j.id = u.id
            WHERE j.id = ANY (ids);
        ELSE
            RETURN QUERY
            SELECT
                NULL::integer, 'inserted', NULL::uuid, 'available'::job_state, instant, instant, NULL::timestamptz,
                NULL::job;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION _insert_unique(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], integer[], interval, boolean, jsonb
) IS
    'Inserts jobs with new ids and different keys that ignore duplicates, each for itself: inserted, duplicate (job is the one that claims the key), or contested (nothing was done: _insert_batch settles it). An answer without a place stands for every place that no other names. max_wait: how long to wait for each key of an open transaction; an error 55P03 after that. folded: how many more inputs of the caller each place stands for, which are its duplicates, for the audit. groups: an array with {"key", "limit", "in_order"} for each place, null for one without a group; null: for all. With all_or_nothing a contested one is error UQ001 instead.';

-- Inserting, with or without a unique key.

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
--   unique      insert_unique: a look for holders, then INSERT of the rows that have none. Each row is
--               settled for itself: inserted, duplicate, or contested, where its key takes more than a look.
--   one by one  insert_batch: the batch is all or nothing. It tries the unique way in a subtransaction. Where a row is
--               contested, or asks for more than ignore, it takes the keys one by one, in their order.
--
-- In all arrays, a place stands for a job. An array of one element stands for all places, an empty one for nulls.

CREATE FUNCTION not_by_scan(claims boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    COST 1000000
AS $$
BEGIN
    RETURN claims;
END
$$;
COMMENT ON FUNCTION not_by_scan(boolean) IS
    'Returns its argument, at a high declared price, which the planner counts for each row that a scan of the table would have to ask it about. Beside a condition that an index on claiming jobs implies, it is never called. It keeps a statement that is planned while the table is small, and kept, from reading the whole table later.';

CREATE FUNCTION contested(all_or_nothing boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF all_or_nothing THEN
        RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'contested';
    END IF;
    RETURN 'contested';
END
$$;
COMMENT ON FUNCTION contested(boolean) IS
    'The outcome of a job that insert_unique cannot settle. Error UQ001 where that undoes the whole batch.';

CREATE FUNCTION refuse_beyond_max_waiting() RETURNS trigger
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    -- As in insert_unique. The counts stop at the limit only where a scan reads an index in its order.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
-- It counts after the insert, so it sees what the statement made of duplicates and replacements. Two transactions that are
-- open at once do not see each other's jobs, so a queue can exceed its limit by what such transactions insert.
DECLARE
    beyond record;
BEGIN
    IF current_setting('uniqueue.ignore_max_waiting', true) = 'on' THEN
        RETURN NULL;
    END IF;
    SELECT s.name, s.max_waiting, n.jobs, greatest(0, s.max_waiting - (w.waiting - n.jobs)) AS room
    INTO beyond
    FROM (SELECT e.queue, count(*) AS jobs FROM entered AS e WHERE e.state = 'available' GROUP BY e.queue) AS n
    CROSS JOIN LATERAL (
        SELECT q.name, q.max_waiting FROM queue AS q WHERE q.name = n.queue AND q.max_waiting IS NOT NULL LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting
        FROM (
            SELECT FROM available_jobs(s.name, s.max_waiting + n.jobs) LIMIT s.max_waiting + n.jobs
        ) AS c
    ) AS w
    WHERE w.waiting > s.max_waiting
    ORDER BY s.name
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'UQ003',
            MESSAGE = format(
                'queue %s is full: at most %s of its jobs may wait, and it has room for %s of %s new ones',
                to_json(beyond.name::text), beyond.max_waiting, beyond.room, beyond.jobs
            ),
            DETAIL = json_build_object('queue', beyond.name, 'max_waiting', beyond.max_waiting, 'room', beyond.room),
            HINT = 'Nothing was inserted. Try again when workers have started some of them, let more runners work the queue, or raise its limit with limit_waiting.',
            SCHEMA = current_schema(),
            TABLE = 'job';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION refuse_beyond_max_waiting() IS
    'Error UQ003 where an insert left a queue with more available jobs than its max_waiting. Its DETAIL is {"queue", "max_waiting", "room"}; room is how many of the new jobs the queue could have taken. Setting uniqueue.ignore_max_waiting to on exempts the inserts of a session or transaction.';
REVOKE EXECUTE ON FUNCTION refuse_beyond_max_waiting() FROM PUBLIC;

CREATE FUNCTION insert_unique(
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
                coalesce(u.priority, priorities[1]), coalesce(u.max_attempts, insert_unique.max_attempts[1]),
                instant, d.due_at,
                CASE WHEN u.is_pending THEN 'pending' WHEN d.due_at > instant THEN 'scheduled' ELSE 'available' END
                    ::job_state,
                u.unique_key,
                CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, insert_unique.unique_states[1]) END,
                coalesce(length_after(instant, u.period), length_after(greatest(instant, d.due_at), u.ttl)),
                coalesce(u.until_start, until_starts[1]), coalesce(u.discard_on_reentry, discards_on_reentry[1]),
                groups -> u.place::integer - 1 ->> 'key', (groups -> u.place::integer - 1 ->> 'limit')::smallint,
                (groups -> u.place::integer - 1 ->> 'in_order')::boolean
            FROM unnest(
                ids, kinds, queues, insert_unique.args, metas, priorities, insert_unique.max_attempts, scheduled_ats,
                delays, pendings, unique_keys, insert_unique.unique_states, periods, ttls, until_starts,
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
        outcome := contested(all_or_nothing);
        RETURN NEXT;
        RETURN;
    END IF;

    -- A holder that ended meanwhile, and an expired claim, take more than a look.
    IF cardinality(held) > 0 THEN
        RETURN QUERY
        SELECT
            u.place::integer, CASE WHEN h.holder IS NULL THEN contested(all_or_nothing) ELSE 'duplicate' END,
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
        PERFORM note_duplicates(
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
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle AND r.queues && insert_unique.queues) THEN
            PERFORM wake_runners(array_agg(DISTINCT j.queue::text))
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
COMMENT ON FUNCTION insert_unique(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], integer[], interval, boolean, jsonb
) IS
    'Inserts jobs with new ids and different keys that ignore duplicates, each for itself: inserted, duplicate (job is the one that claims the key), or contested (nothing was done: insert_batch settles it). An answer without a place stands for every place that no other names. max_wait: how long to wait for each key of an open transaction; an error 55P03 after that. folded: how many more inputs of the caller each place stands for, which are its duplicates, for the audit. groups: an array with {"key", "limit", "in_order"} for each place, null for one without a group; null: for all. With all_or_nothing a contested one is error UQ001 instead.';

CREATE TYPE new_job AS (
    place integer,
    id uuid,
    may_exist boolean,
    kind text,
    queue text,
    args jsonb,
    meta jsonb,
    priority smallint,
    max_attempts smallint,
    scheduled_at timestamptz,
    delay interval,
    is_pending boolean,
    unique_key text COLLATE "C",
    unique_states smallint,
    period interval,
    ttl interval,
    until_start boolean,
    discard_on_reentry boolean,
    on_conflict text COLLATE "C",
    group_key text,
    group_limit smallint,
    in_order boolean
);
COMMENT ON TYPE new_job IS
    'A job on its way into the table. place: its place in the batch. may_exist: whether a job may have the id already, as where the caller gave it. Of an update, on_conflict has the parameters as read_update answers.';

CREATE FUNCTION release_expired(holder uuid) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE job AS h
    SET unique_states = 0
    WHERE h.id = holder AND h.claims AND h.unique_until <= clock_timestamp();
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION release_expired(uuid) IS
    'Ends the claim of a job if it has expired, and answers whether it had. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION release_expired(uuid) FROM PUBLIC;

CREATE FUNCTION replace_holder(holder uuid, successor uuid, preempt boolean) RETURNS job
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
DECLARE
    replaced job;
BEGIN
    -- In a block, so that a holder that started or finished meanwhile is not left locked.
    BEGIN
        UPDATE job AS h
        SET unique_states = 0,
            replaced_by = successor,
            state = CASE WHEN h.finalized_at IS NULL THEN 'cancelled' ELSE h.state END,
            finalized_at = coalesce(h.finalized_at, clock_timestamp())
        WHERE h.id = holder AND h.claims AND (h.state <> 'running' OR preempt)
        RETURNING h.* INTO replaced;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'the holder moved on';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ002' THEN
            RETURN NULL;
    END;
    RETURN replaced;
END
$$;
COMMENT ON FUNCTION replace_holder(uuid, uuid, boolean) IS
    'Makes a job give up its claim to the job that the caller inserts next, and cancels it unless it is final. preempt: also if it is running. Answers with the job as it is since; null: it claims nothing, or is running. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION replace_holder(uuid, uuid, boolean) FROM PUBLIC;

CREATE FUNCTION is_waiting(state job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN state IN ('available', 'pending', 'retryable', 'scheduled');
COMMENT ON FUNCTION is_waiting(job_state) IS
    'Whether a job in this state waits for its start.';

CREATE FUNCTION updated_args(held jsonb, given jsonb, mode text, max_items integer) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
DECLARE
    max_args_bytes CONSTANT bigint := coalesce(nullif(current_setting('uniqueue.max_args_bytes', true), ''), '1048576');
    updated jsonb;
    misfit text;
BEGIN
    IF mode = 'latest' THEN
        RETURN given;
    ELSIF jsonb_typeof(held) <> 'object' OR jsonb_typeof(given) <> 'object' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid args: update needs objects for %s: %s', mode, left(given::text, 80));
    END IF;
    updated := held || given;
    IF mode = 'append' THEN
        SELECT n.key INTO misfit
        FROM jsonb_each(given) AS n
        WHERE held -> n.key <> n.value
            AND NOT (jsonb_typeof(held -> n.key) = 'array' AND jsonb_typeof(n.value) = 'array')
        ORDER BY n.key COLLATE "C"
        LIMIT 1;
        IF misfit IS NOT NULL THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid args: append needs an array in both jobs: %s', to_json(misfit));
        END IF;
        updated := updated || coalesce(
            (
                SELECT jsonb_object_agg(n.key, (held -> n.key) || n.value)
                FROM jsonb_each(given) AS n
                WHERE jsonb_typeof(n.value) = 'array' AND held ? n.key
            ),
            '{}'
        );
        IF EXISTS (
            SELECT FROM jsonb_each(given) AS n
            WHERE CASE WHEN jsonb_typeof(n.value) = 'array' THEN jsonb_array_length(updated -> n.key) > max_items END
        ) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN CASE WHEN octet_length(updated::text) <= max_args_bytes THEN updated END;
END
$$;
COMMENT ON FUNCTION updated_args(jsonb, jsonb, text, integer) IS
    'The args of a holder after an update by a duplicate: latest, merge or append. Null: an array would have more than max_items items, or the args more bytes than are allowed. Error 22023: args that are no objects, and for append a member that is no array.';

CREATE FUNCTION updates_as_one(given jsonb[], mode text, max_bytes bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
BEGIN
    IF mode = 'latest' THEN
        RETURN given[cardinality(given)];
    ELSIF EXISTS (SELECT FROM unnest(given) AS g (args) WHERE jsonb_typeof(g.args) <> 'object')
        OR (SELECT sum(octet_length(g.args::text)) FROM unnest(given) AS g (args)) > max_bytes
    THEN
        RETURN NULL;
    ELSIF mode = 'merge' THEN
        RETURN (
            SELECT coalesce(jsonb_object_agg(l.key, l.value), '{}')
            FROM (
                SELECT DISTINCT ON (e.key COLLATE "C") e.key, e.value
                FROM unnest(given) WITH ORDINALITY AS g (args, place)
                CROSS JOIN LATERAL jsonb_each(g.args) AS e
                ORDER BY e.key COLLATE "C", g.place DESC
            ) AS l
        );
    END IF;
    -- A member is an array in every one of them, or has one value.
    RETURN (
        SELECT CASE WHEN coalesce(bool_and(m.fits), true) THEN coalesce(jsonb_object_agg(m.key, m.value), '{}') END
        FROM (
            SELECT
                e.key COLLATE "C" AS key,
                count(DISTINCT e.value) FILTER (WHERE jsonb_typeof(e.value) <> 'array')
                    + bool_or(jsonb_typeof(e.value) = 'array')::integer = 1 AS fits,
                CASE
                    WHEN bool_and(jsonb_typeof(e.value) = 'array') THEN coalesce(
                        jsonb_agg(i.item ORDER BY g.place, i.place) FILTER (WHERE i.place IS NOT NULL), '[]'
                    )
                    ELSE (array_agg(e.value) FILTER (WHERE jsonb_typeof(e.value) <> 'array'))[1]
                END AS value
            FROM unnest(given) WITH ORDINALITY AS g (args, place)
            CROSS JOIN LATERAL jsonb_each(g.args) AS e
            LEFT JOIN LATERAL jsonb_array_elements(CASE WHEN jsonb_typeof(e.value) = 'array' THEN e.value END)
                WITH ORDINALITY AS i (item, place) ON true
            GROUP BY e.key COLLATE "C"
        ) AS m
    );
END
$$;
COMMENT ON FUNCTION updates_as_one(jsonb[], text, bigint) IS
    'The args of several updates, in their order, as those of one update with the same effect. Null: they must be applied in parts, since together they have more than max_bytes, or do not fit each other.';

CREATE FUNCTION fold_updates(
    held jsonb, given jsonb[], mode text, max_items integer, OUT new_args jsonb, OUT folded integer
)
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
DECLARE
    max_args_bytes CONSTANT bigint := coalesce(nullif(current_setting('uniqueue.max_args_bytes', true), ''), '1048576');
    size integer := cardinality(given);
    as_one jsonb;
    updated jsonb;
BEGIN
    new_args := held;
    folded := 0;
    -- As many at once as surely fit. Where they do not, half of them: so the work grows with the args, not with the square
    -- of the number of updates.
    WHILE folded < cardinality(given) LOOP
        size := least(size, cardinality(given) - folded);
        IF size = 1 THEN
            updated := updated_args(new_args, given[folded + 1], mode, max_items);
        ELSE
            BEGIN
                as_one := updates_as_one(
                    given[folded + 1 : folded + size], mode, max_args_bytes - octet_length(new_args::text)
                );
                updated := CASE WHEN as_one IS NOT NULL THEN updated_args(new_args, as_one, mode, max_items) END;
            EXCEPTION
                -- The holder may be full before the update that does not fit.
                WHEN invalid_parameter_value THEN
                    updated := NULL;
            END;
        END IF;
        IF updated IS NOT NULL THEN
            new_args := updated;
            folded := folded + size;
            size := size * 2;
        ELSIF size > 1 THEN
            size := size / 2;
        ELSE
            RETURN;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION fold_updates(jsonb, jsonb[], text, integer) IS
    'The args of a holder after updates by duplicates, one after another, until the holder is full. folded: how many of them it took. Errors as updated_args.';

CREATE FUNCTION updated_schedule(
    state job_state,
    attempted_at timestamptz,
    created_at timestamptz,
    scheduled_at timestamptz,
    max_delay interval,
    wanted_at timestamptz,
    arrived timestamptz
) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE
    -- Once due, the time stays, so that no stream of updates keeps the job from its run.
    RETURN CASE
        WHEN state = 'scheduled' AND attempted_at IS NULL AND scheduled_at > arrived
            THEN greatest(scheduled_at, least(wanted_at, created_at + max_delay))
        ELSE scheduled_at
    END;
COMMENT ON FUNCTION updated_schedule(
    job_state, timestamptz, timestamptz, timestamptz, interval, timestamptz, timestamptz
) IS
    'When a holder with these columns is due after an update by a duplicate that arrives at this time, wants it due at wanted_at and pushes it up to max_delay. max_delay null: nothing pushes it, if wanted_at is null as well.';

CREATE FUNCTION is_overdue(
    state job_state,
    attempted_at timestamptz,
    created_at timestamptz,
    scheduled_at timestamptz,
    max_delay interval,
    at timestamptz
) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN coalesce(
        state <> 'pending' AND (
            scheduled_at < at - interval '1 s'
            OR (state = 'scheduled' AND attempted_at IS NULL AND created_at + max_delay < at - interval '1 s')
        ),
        false
    );
COMMENT ON FUNCTION is_overdue(job_state, timestamptz, timestamptz, timestamptz, interval, timestamptz) IS
    'Whether a waiting job with these columns is due for more than a second, or past the longest delay of an update. Such a job is updated no more: updates queue on its row, and a fetch passes a locked row by.';

CREATE FUNCTION check_same_kind(holder uuid, held text, given text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF held <> given COLLATE "C" THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                'invalid unique policy: update: the unique key is held by job %s of kind %s, not of kind %s',
                holder, to_json(held), to_json(given)
            ),
            HINT = 'An update never changes a job of another kind. Give each kind keys of its own.';
    END IF;
END
$$;
COMMENT ON FUNCTION check_same_kind(uuid, text, text) IS
    'Error 22023 where a duplicate of one kind would update a holder of another.';

CREATE FUNCTION max_delay(on_conflict text) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN nullif(split_part(on_conflict COLLATE "C", ' ', 3), '0')::bigint * interval '1 microsecond';
COMMENT ON FUNCTION max_delay(text) IS
    'The longest delay of an update, as read_update answers it; null: it does not push.';

CREATE FUNCTION check_max_delay(on_conflict text, delay interval) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
AS $$
BEGIN
    IF delay >= max_delay(on_conflict) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                'invalid unique policy: update.max_delay: must be longer than the delay: %s and %s',
                max_delay(on_conflict), delay
            );
    END IF;
END
$$;
COMMENT ON FUNCTION check_max_delay(text, interval) IS
    'Error 22023 where a job is due after the longest delay of its own policy, so that it could never be pushed. on_conflict: as read_update answers.';

CREATE FUNCTION update_holder(holder uuid, run new_job[], OUT settled integer, OUT held job)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    parameters CONSTANT text[] := string_to_array(run[1].on_conflict, ' ');
    longest CONSTANT interval := max_delay(run[1].on_conflict);
    ttl CONSTANT interval := run[1].ttl;
    arrived timestamptz;
    new_args jsonb;
    last new_job;
    due timestamptz;
BEGIN
    settled := 0;
    -- The second of two updates waits here for the first, and goes on from its result. In a block, so that a holder that
    -- moved on meanwhile is not left locked.
    BEGIN
        SELECT h.* INTO held
        FROM job AS h
        WHERE h.id = holder AND h.claims AND is_waiting(h.state)
            AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'the holder moved on';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ002' THEN
            held := NULL;
            RETURN;
    END;
    PERFORM check_same_kind(holder, held.kind, run[1].kind);
    arrived := clock_timestamp();
    IF NOT is_overdue(held.state, held.attempted_at, held.created_at, held.scheduled_at, longest, arrived) THEN
        SELECT f.new_args, f.folded INTO new_args, settled
        FROM fold_updates(held.args, ARRAY(SELECT u.args FROM unnest(run) AS u), parameters[2], parameters[4]::integer) AS f;
    END IF;
    IF settled = 0 THEN
        -- Full or overdue. It runs with what it has, and the newcomer takes its claim.
        UPDATE job AS h SET unique_states = 0 WHERE h.id = holder RETURNING h.* INTO held;
        RETURN;
    END IF;
    last := run[settled];
    SELECT updated_schedule(
        held.state, held.attempted_at, held.created_at, held.scheduled_at, longest,
        CASE WHEN longest IS NOT NULL THEN max(coalesce(u.scheduled_at, arrived + coalesce(u.delay, interval '0'))) END,
        arrived
    )
    INTO due
    FROM unnest(run[1 : settled]) AS u;
    -- Roles that insert may call this. No job may lose attempts to it, or be due at a time that clients cannot read.
    IF last.max_attempts < 1 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid max_attempts: must be at least 1: %s', last.max_attempts);
    ELSIF extract(year FROM due AT TIME ZONE 'UTC') NOT BETWEEN 1 AND 9000 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid scheduled_at: must be in the years 1 to 9000: %s', due);
    END IF;
    UPDATE job AS h
    SET args = new_args,
        scheduled_at = due,
        unique_until = CASE
            WHEN h.unique_until IS NOT NULL AND due > h.scheduled_at
                THEN greatest(h.unique_until, length_after(due, ttl))
            ELSE h.unique_until
        END,
        -- The new args get all their attempts.
        max_attempts = CASE
            WHEN h.attempt > 0 THEN least(32767, h.attempt::integer + last.max_attempts)
            ELSE h.max_attempts
        END,
        updates = coalesce(h.updates, 0) + settled,
        updated_at = arrived,
        updated_by = last.id
    WHERE h.id = holder
    RETURNING h.* INTO held;
END
$$;
COMMENT ON FUNCTION update_holder(uuid, new_job[]) IS
    'Changes a waiting job that claims its key as duplicates ask for, one after another (on_conflict update). They have the parameters and the ttl of the first. held: the job as it is then; without claims where it is full or overdue; null where it does not wait and claim any more. settled: how many of the duplicates it took. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION update_holder(uuid, new_job[]) FROM PUBLIC;

CREATE FUNCTION cover_holder(holder uuid, only_where_unlocked boolean, changes_it_later boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
BEGIN
    -- A fetch and a promotion pass by a locked job, so its run begins after this transaction has ended. FOR SHARE lets
    -- several transactions cover one job. In a block, so that a holder that moved on meanwhile is not left locked.
    BEGIN
        IF only_where_unlocked THEN
            PERFORM
            FROM job AS h
            WHERE h.id = holder AND h.claims AND is_waiting(h.state)
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
            FOR NO KEY UPDATE SKIP LOCKED;
        ELSIF changes_it_later THEN
            PERFORM
            FROM job AS h
            WHERE h.id = holder AND h.claims AND is_waiting(h.state)
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
            FOR NO KEY UPDATE;
        ELSE
            PERFORM
            FROM job AS h
            WHERE h.id = holder AND h.claims AND is_waiting(h.state)
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
            FOR SHARE;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'locked, or the holder moved on';
        END IF;
    EXCEPTION
        WHEN SQLSTATE 'UQ002' THEN
            RETURN false;
    END;
    RETURN true;
END
$$;
COMMENT ON FUNCTION cover_holder(uuid, boolean, boolean) IS
    'Locks a waiting job that claims its key against a start, until the caller''s transaction ends (on_conflict run_again). only_where_unlocked: not where another transaction has it locked. changes_it_later: as strongly as a change does, so that two callers that cover it and then change it do not deadlock. Answers whether it waits, claims and is locked. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION cover_holder(uuid, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION check_same_job(
    id uuid, kind text, queue text, args jsonb, is_updated boolean, given_kind text, given_queue text, given_args jsonb
) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
AS $$
#variable_conflict use_variable
BEGIN
    -- Updates changed the args of a job that was updated.
    IF kind = given_kind COLLATE "C" AND queue = given_queue COLLATE "C" AND (is_updated OR args = given_args) THEN
        RETURN;
    END IF;
    RAISE unique_violation USING
        MESSAGE = format(
            'id %s belongs to another job: of kind %s in queue %s%s, and the insert is of kind %s in queue %s',
            id, to_json(kind), to_json(queue),
            CASE WHEN NOT is_updated AND args <> given_args THEN ' with other args' ELSE '' END,
            to_json(given_kind), to_json(given_queue)
        ),
        HINT = 'An insert that is sent again has the same kind, queue and args. Another job needs another id.',
        SCHEMA = current_schema(),
        TABLE = 'job',
        CONSTRAINT = 'job_pkey';
END
$$;
COMMENT ON FUNCTION check_same_job(uuid, text, text, jsonb, boolean, text, text, jsonb) IS
    'Error 23505 on job_pkey, naming both, where the job that has the id of an insert is not the same: another kind, queue or args. is_updated: duplicates changed its args, which therefore do not count.';

CREATE FUNCTION check_rounds(rounds integer, sees_holder boolean) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
BEGIN
    -- Rivals that win so often one after another are less likely than a policy that hides the holder.
    IF NOT sees_holder AND row_security_active('job') THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'row-level security hides the job that claims a unique key from ' || current_user,
            HINT = 'Inserts with unique keys must see every job of the table: let a policy show all rows to this role, or insert as a role with BYPASSRLS.';
    ELSIF rounds > 10000 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'serialization_failure',
            MESSAGE = 'insert lost 10000 rounds against rivals for one unique key',
            HINT = 'Other sessions insert and finish jobs with this key without pause. Try again.';
    END IF;
END
$$;
COMMENT ON FUNCTION check_rounds(integer, boolean) IS
    'Error 42501 or 40001 for an insert that lost more than a hundred rounds against rivals for one key.';

CREATE FUNCTION settle_jobs(
    run new_job[],
    instant timestamptz,
    changes_it_later boolean,
    OUT settled integer,
    OUT outcome text,
    OUT answered job,
    OUT replaced uuid,
    OUT former job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    given new_job := run[1];
    answer CONSTANT text := split_part(given.on_conflict, ' ', 1);
    rounds integer := 0;
    holder job;
    waits boolean;
    is_due_for_long boolean;
    -- Whether the newcomer of run_again is inserted without the claim.
    goes_without boolean;
    change record;
    began integer;
    arrived timestamptz;
    due timestamptz;
BEGIN
    settled := 1;
    IF answer NOT IN ('ignore', 'reject', 'replace', 'replace_except_schedule', 'preempt', 'update', 'run_again') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('unknown on_conflict: %L', given.on_conflict),
            HINT = 'One of ignore, reject, replace, replace_except_schedule, preempt, update, run_again.';
    ELSIF answer = 'update' THEN
        PERFORM check_max_delay(u.on_conflict, coalesce(u.scheduled_at - clock_timestamp(), u.delay)) FROM unnest(run) AS u;
    END IF;
    -- A rival that committed meanwhile won each round that is lost, so the inserts as a whole make progress.
    LOOP
        rounds := rounds + 1;
        IF rounds > 100 THEN
            PERFORM check_rounds(rounds, holder.id IS NOT NULL);
        END IF;

        IF given.may_exist THEN
            -- The same insert, sent again.
            SELECT j.* INTO answered FROM job AS j WHERE j.id = given.id;
            IF FOUND THEN
                PERFORM check_same_job(
                    given.id, answered.kind, answered.queue, answered.args, answered.updates IS NOT NULL,
                    given.kind, given.queue, given.args
                );
                outcome := 'inserted';
                RETURN;
            END IF;
        END IF;

        goes_without := false;
        holder := NULL;
        IF given.unique_key IS NOT NULL THEN
            SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = given.unique_key AND h.claims;
        END IF;
        waits := is_waiting(holder.state);

        IF holder.id IS NULL THEN
            NULL;
        ELSIF holder.unique_until <= clock_timestamp() THEN
            PERFORM release_expired(holder.id);
        ELSIF answer = 'ignore' THEN
            answered := holder;
            outcome := 'duplicate';
            RETURN;
        ELSIF answer = 'run_again' AND waits THEN
            -- Due for long, the holder is in a backlog, or overlapping transactions keep it from its run. Then it is covered
            -- only where no other transaction has it locked.
            is_due_for_long := is_overdue(
                holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, NULL, clock_timestamp()
            );
            IF cover_holder(holder.id, is_due_for_long, changes_it_later) THEN
                answered := holder;
                outcome := 'covered';
                RETURN;
            END IF;
            goes_without := is_due_for_long AND EXISTS (
                SELECT FROM job AS h WHERE h.id = holder.id AND h.claims AND is_waiting(h.state)
            );
            CONTINUE WHEN NOT goes_without;
        ELSIF answer = 'update' AND waits THEN
            IF holder.updated_by = given.id THEN
                -- The same insert, sent again.
                answered := holder;
                outcome := 'updated';
                RETURN;
            END IF;
            -- Up to the first whose id a job has: that one is settled by itself.
            run := ARRAY(
                SELECT r::new_job
                FROM unnest(run) AS r
                WHERE r.place < ALL (ARRAY(
                    SELECT e.place
                    FROM unnest(run) AS e
                    WHERE e.place > given.place AND (SELECT j.id FROM job AS j WHERE j.id = e.id LIMIT 1) IS NOT NULL
                ))
                ORDER BY r.place
            );
            SELECT u.* INTO change FROM update_holder(holder.id, run) AS u;
            IF change.settled > 0 THEN
                settled := change.settled;
                answered := change.held;
                outcome := 'updated';
                RETURN;
            ELSIF (change.held).id IS NOT NULL THEN
                former := change.held;
            END IF;
            CONTINUE;
        ELSIF answer = 'preempt' OR (answer COLLATE "C" LIKE 'replace%' AND holder.state <> 'running') THEN
            former := replace_holder(holder.id, given.id, answer = 'preempt');
            CONTINUE WHEN former.id IS NULL;
            replaced := holder.id;
            -- What it replaced was first in its group, and so is the successor.
            IF former.began IS NOT NULL AND given.in_order
                AND (former.queue, former.group_key) = (given.queue, given.group_key)
            THEN
                began := 0;
            END IF;
            -- A holder that was due at once, or has started, has no schedule to keep. One whose time has come has, though it
            -- is available now; and so has one that an operator gave a time, or let go.
            IF answer = 'replace_except_schedule' AND (
                holder.state = 'scheduled' OR (
                    holder.state IN ('available', 'pending')
                    AND holder.attempt = 0
                    AND holder.scheduled_at > holder.created_at
                )
            ) THEN
                given.scheduled_at := holder.scheduled_at;
            END IF;
        ELSE
            answered := holder;
            outcome := 'rejected';
            RETURN;
        END IF;

        arrived := clock_timestamp();
        due := coalesce(given.scheduled_at, coalesce(instant, arrived) + coalesce(given.delay, interval '0'));
        INSERT INTO job AS j (
            id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
            unique_key, unique_states, unique_until, until_start, discard_on_reentry, unique_yielded,
            group_key, group_limit, in_order, began
        )
        VALUES (
            given.id, given.kind, given.queue, given.args, given.meta, given.priority, given.max_attempts, arrived, due,
            CASE WHEN given.is_pending THEN 'pending' WHEN due > arrived THEN 'scheduled' ELSE 'available' END::job_state,
            given.unique_key, given.unique_states,
            coalesce(length_after(arrived, given.period), length_after(greatest(arrived, due), given.ttl)),
            given.until_start, given.discard_on_reentry, goes_without,
            given.group_key, given.group_limit, given.in_order, began
        )
        ON CONFLICT DO NOTHING
        RETURNING j.* INTO answered;
        IF FOUND THEN
            outcome := 'inserted';
            RETURN;
        END IF;
        given.may_exist := true;
    END LOOP;
END
$$;
COMMENT ON FUNCTION settle_jobs(new_job[], timestamptz, boolean) IS
    'Inserts the first of these jobs, or does with the job that claims its key as its on_conflict says. Several jobs are updates with the same key, parameters and ttl, which are applied together where the holder waits. settled: how many of the jobs have this answer. outcome: inserted, duplicate, updated, covered or rejected. answered: the new job or the holder. replaced: the job that the new one took the place of. former: that job as it is since, or the one that gave up its claim. instant: when the batch began; null: now. changes_it_later: whether a later job of the batch may change the holder.';

CREATE FUNCTION jobs_by_key(
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
                        coalesce(u.max_attempts, jobs_by_key.max_attempts[1]), u.scheduled_at, u.delay, u.is_pending,
                        u.unique_key,
                        CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, jobs_by_key.unique_states[1]) END,
                        u.period, u.ttl, coalesce(u.until_start, until_starts[1]),
                        coalesce(u.discard_on_reentry, discards_on_reentry[1]), o.on_conflict,
                        groups -> u.place::integer - 1 ->> 'key', (groups -> u.place::integer - 1 ->> 'limit')::smallint,
                        (groups -> u.place::integer - 1 ->> 'in_order')::boolean
                    )::new_job AS job
                FROM unnest(
                    ids, kinds, queues, jobs_by_key.args, metas, priorities, jobs_by_key.max_attempts, scheduled_ats, delays,
                    pendings, unique_keys, jobs_by_key.unique_states, periods, ttls, until_starts, discards_on_reentry,
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
COMMENT ON FUNCTION jobs_by_key(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], jsonb
) IS
    'The jobs of a batch in the one order in which all batches take their keys. A row has one job, or updates of one key that follow each other and can be applied together. changes_it_later: whether a job of the batch with the same key may change its holder.';

CREATE FUNCTION limit_wait(max_wait interval) RETURNS text
    LANGUAGE sql VOLATILE
    -- 0 would mean for ever, and PostgreSQL counts up to 24 days.
    RETURN set_config(
        'lock_timeout',
        least(2147483647, greatest(1, ceil(extract(epoch FROM max_wait) * 1000)))::bigint || 'ms',
        true
    );
COMMENT ON FUNCTION limit_wait(interval) IS
    'Sets lock_timeout to max_wait, until the transaction ends or it is set again.';

CREATE FUNCTION wake_for(jobs uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    queues CONSTANT text[] := ARRAY(
        SELECT DISTINCT j.queue::text FROM job AS j WHERE j.id = ANY (jobs) AND j.state = 'available'
    );
BEGIN
    PERFORM wake_runners(queues);
END
$$;
COMMENT ON FUNCTION wake_for(uuid[]) IS
    'Wakes idle runners, at the commit, for those of these jobs that are available: the jobs that the transaction inserted, and those that it locked, since a fetch passed them by.';

CREATE FUNCTION insert_one(given new_job, max_wait interval, OUT outcome text, OUT replaced uuid, OUT answered job)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_unique.
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
        step := settle_jobs(ARRAY[given], NULL, false);
    ELSE
        caller_lock_timeout := current_setting('lock_timeout');
        PERFORM limit_wait(max_wait);
        BEGIN
            step := settle_jobs(ARRAY[given], NULL, false);
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
        PERFORM note_duplicates(ARRAY[given.kind], ARRAY[given.unique_key], ARRAY[answered.id], ARRAY[1]);
    END IF;
    IF outcome IN ('inserted', 'updated', 'covered') THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle) THEN
            PERFORM wake_for(ARRAY[answered.id, former.id]);
        END IF;
        IF former.state = 'cancelled' AND former.worker IS NOT NULL THEN
            PERFORM tell_runners(ARRAY[former.worker]);
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION insert_one(new_job, interval) IS
    'Inserts a job, or does with the job that claims its key as its on_conflict says. outcome: inserted, duplicate, updated, covered, rejected or busy (max_wait ran out, nothing was inserted). answered: the new job or the holder. replaced: the job that the new one took the place of. The front door for people is insert_job.';

CREATE FUNCTION insert_batch(
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
    -- As in insert_unique.
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
        PERFORM limit_wait(max_wait);
    END IF;

    -- In a block, so that a rejection undoes the whole batch and nothing else.
    BEGIN
        IF NOT in_order THEN
            -- In a block of its own, so that a contested row gives every lock back before the keys are taken one by one.
            BEGIN
                RETURN QUERY
                SELECT
                    a.place, a.outcome, a.replaced, a.state, a.created_at, a.scheduled_at, a.unique_until, (a.job).id, a.job
                FROM insert_unique(
                    ids, kinds, queues, insert_batch.args, metas, priorities, insert_batch.max_attempts, scheduled_ats,
                    delays, pendings, unique_keys, insert_batch.unique_states, periods, ttls, until_starts,
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
            FROM jobs_by_key(
                ids, kinds, queues, insert_batch.args, metas, priorities, insert_batch.max_attempts, scheduled_ats, delays,
                pendings, unique_keys, insert_batch.unique_states, periods, ttls, until_starts, discards_on_reentry,
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
                FROM settle_jobs(run, CASE WHEN size > 1 THEN instant END, batch.changes_it_later) AS s;
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
        PERFORM note_duplicates(
            array_agg(coalesce(u.kind, kinds[1])), array_agg(u.unique_key), array_agg(answered[u.place]),
            array_agg(coalesce(u.folded, 0) + (u.outcome <> 'inserted')::integer)
        )
        FROM unnest(kinds, unique_keys, folded, outcomes)
            WITH ORDINALITY AS u (kind, unique_key, folded, outcome, place)
        WHERE u.outcome = 'rejected' OR (NOT is_rejected AND (u.outcome IN ('duplicate', 'updated', 'covered') OR u.folded > 0));
    END IF;
    IF NOT is_rejected THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle) THEN
            PERFORM wake_for(
                released || ARRAY(
                    SELECT u.id
                    FROM unnest(answered, outcomes) AS u (id, outcome)
                    WHERE u.outcome IN ('inserted', 'updated', 'covered')
                )
            );
        END IF;
        IF cardinality(stopped) > 0 THEN
            PERFORM tell_runners(stopped);
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
COMMENT ON FUNCTION insert_batch(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], text[], boolean, interval, integer[], jsonb
) IS
    'Inserts a batch of jobs, all or nothing, as insert_unique where that is enough, else key by key. Answers inserted, duplicate (job is the holder), updated (the holder was changed), covered (the holder starts after the commit), rejected (nothing was inserted, and only the rejected places are answered), or once, without a place, busy (max_wait ran out, nothing was inserted). job_id: the job of the answer. job: the same, for the first place that it answers. in_order takes key by key at once, as on_conflict other than ignore, equal keys in the batch and ids that may exist need. folded, groups: as in insert_unique. The front door for people is insert_jobs.';

CREATE FUNCTION job_group_of(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    group_key text,
    group_policy jsonb,
    group_limit integer,
    in_order boolean
) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    problem text;
BEGIN
    problem := CASE
        WHEN group_key IS NOT NULL AND group_policy IS NOT NULL THEN 'invalid group_policy: not together with group_key'
        WHEN group_key IS NULL AND group_policy IS NULL AND group_limit IS NOT NULL THEN
            'invalid group_limit: needs a group_key or a group_policy'
        WHEN group_key IS NULL AND group_policy IS NULL AND in_order THEN
            'invalid in_order: needs a group_key or a group_policy'
        WHEN octet_length(group_key) NOT BETWEEN 1 AND 512 THEN
            format('invalid group_key: must be 1 to 512 bytes: %s', octet_length(group_key))
        WHEN group_limit NOT BETWEEN 1 AND 32767 THEN
            format('invalid group_limit: must be 1 to 32767: %s', group_limit)
        WHEN in_order AND group_limit > 1 THEN
            format('invalid group_limit: must be 1 for a job that is in_order: %s', group_limit)
        WHEN group_policy ? 'window' THEN 'invalid group_policy: window: a group has none'
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    IF group_policy IS NOT NULL THEN
        -- For people: the text says what the jobs of the group have in common. A long one is hashed.
        SELECT CASE WHEN octet_length(c.canonical) <= 128 THEN c.canonical ELSE c.unique_key END INTO group_key
        FROM job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, group_policy) AS c;
    END IF;
    RETURN CASE
        WHEN group_key IS NOT NULL THEN
            jsonb_build_object('key', group_key, 'limit', group_limit, 'in_order', nullif(in_order, false))
    END;
END
$$;
COMMENT ON FUNCTION job_group_of(
    text, jsonb, text, jsonb, integer, integer, timestamptz, text, jsonb, integer, boolean
) IS
    'The group of a job, as insert_batch takes it, from the arguments of insert_job; null: none. Error 22023 naming the argument at fault.';

CREATE FUNCTION enter_job(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    unique_policy jsonb,
    id uuid,
    pending boolean,
    max_wait interval,
    on_reject text,
    group_key text,
    group_limit integer,
    in_order boolean,
    group_policy jsonb,
    OUT outcome text,
    OUT replaced uuid,
    OUT job_id uuid,
    OUT job_state job_state,
    OUT job_key text
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    claim record;
    job_group jsonb;
    answer record;
    answered job;
BEGIN
    IF max_wait IS NOT NULL OR on_reject IS DISTINCT FROM 'error' THEN
        PERFORM check_insert_options(max_wait, on_reject);
    END IF;
    claim := job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy);
    IF group_key IS NOT NULL OR group_policy IS NOT NULL OR group_limit IS NOT NULL OR in_order THEN
        job_group := job_group_of(
            kind, args, queue, meta, priority, max_attempts, scheduled_at, group_key, group_policy, group_limit, in_order
        );
    END IF;
    answer := insert_one(
        (
            1, coalesce(id, new_job_id()), id IS NOT NULL, kind, queue, args, meta, coalesce(priority, 0),
            coalesce(max_attempts, 25), scheduled_at, NULL, pending, claim.unique_key, claim.unique_states, claim.period,
            claim.ttl, coalesce(claim.until_start, false), coalesce(claim.discard_on_reentry, false),
            coalesce(claim.on_conflict, 'ignore'), job_group ->> 'key', (job_group ->> 'limit')::smallint,
            (job_group ->> 'in_order')::boolean
        )::new_job,
        max_wait
    );
    outcome := answer.outcome;
    replaced := answer.replaced;
    answered := answer.answered;
    job_id := answered.id;
    job_state := answered.state;
    job_key := answered.unique_key;
    IF outcome = 'busy' THEN
        PERFORM raise_busy(max_wait);
    ELSIF outcome = 'rejected' AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format('duplicate: the unique key is held by job %s (%s)', job_id, job_state),
            DETAIL = format('{"holder": "%s", "state": "%s"}', job_id, job_state),
            HINT = 'Nothing was inserted. To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;
END
$$;
COMMENT ON FUNCTION enter_job(
    text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid, boolean, interval, text, text, integer,
    boolean, jsonb
) IS
    'What insert_job does, in PL/pgSQL, where an argument and a column of the answer cannot both be named id.';

CREATE FUNCTION insert_job(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL,
    pending boolean DEFAULT false,
    max_wait interval DEFAULT NULL,
    on_reject text DEFAULT 'error',
    group_key text DEFAULT NULL,
    group_limit integer DEFAULT NULL,
    in_order boolean DEFAULT false,
    group_policy jsonb DEFAULT NULL
) RETURNS TABLE (id uuid, state text, duplicate boolean, replaced uuid, unique_key text, outcome text)
    LANGUAGE sql VOLATILE
    ROWS 1
BEGIN ATOMIC
    SELECT
        e.job_id, e.job_state::text, e.outcome IN ('duplicate', 'updated', 'covered', 'rejected'), e.replaced, e.job_key,
        e.outcome
    FROM enter_job(
        insert_job.kind, insert_job.args, insert_job.queue, insert_job.meta, insert_job.priority,
        insert_job.max_attempts, insert_job.scheduled_at, insert_job.unique_policy, insert_job.id,
        coalesce(insert_job.pending, false), insert_job.max_wait, insert_job.on_reject, insert_job.group_key,
        insert_job.group_limit, coalesce(insert_job.in_order, false), insert_job.group_policy
    ) AS e;
END;
COMMENT ON FUNCTION insert_job(
    text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid, boolean, interval, text, text, integer,
    boolean, jsonb
) IS
    'Inserts a job in the caller''s transaction. Answers with the new job; or, with duplicate set, with the job that claims the key, which stays as it is and unlocked.
kind, args, queue, meta: as unique_key. priority: higher runs first, -32768 to 32767, default 0. max_attempts: 1 to 32767, default 25. scheduled_at: when it may run, at the earliest; default now. unique_policy: as unique_key; default null: not unique. id: default a new UUIDv7; an id that is there already is answered with its job where that has the same kind, queue and args (those of a job that was updated do not count), else error 23505 on job_pkey, which names both. pending: true holds the job back until release_jobs; default false.
max_wait: how long to wait for each other open transaction that inserts the key, or that locks the job whose claim on it has expired; error 55P03 after that. Default null: as long as lock_timeout allows, which is for ever unless it is set.
replaced: the job that this one took the place of.
outcome: inserted; duplicate (on_conflict ignore); updated (on_conflict update: the row is the holder, which was changed); covered (on_conflict run_again: the row is the holder, which starts after the transaction has committed); rejected (on_conflict reject, replace on a running holder, update and run_again on one that runs or is final: the row is the holder).
on_reject: error (default): rejected is error 23505 on constraint job_unique_key instead, with {"holder": id, "state": state} as DETAIL, which aborts the transaction, unless the insert stands within a savepoint. row: rejected is a row.
group_key: the group that the job belongs to within its queue, 1 to 512 bytes; default null: none. group_policy: a policy, as unique_policy, that makes the group''s key from the job, instead of group_key: the canonical text of the fingerprint, such as {"args":{"customer":42}}, or its SHA-256 where that text is longer than 128 bytes. group_limit: the job starts only while fewer jobs of its group run than this, 1 to 32767; default null: no limit of its own. in_order: true runs the jobs of the group one at a time in their order, and none overtakes one that began; default false.
Errors 22023, naming the argument or the policy''s member: a value outside its limits.';

CREATE FUNCTION check_insert_options(max_wait interval, on_reject text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF max_wait < interval '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid max_wait: must not be negative: %s', max_wait);
    ELSIF on_reject IS NULL OR on_reject NOT IN ('error', 'row') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid on_reject: must be error or row: %s', coalesce(to_json(on_reject)::text, 'null'));
    END IF;
END
$$;
COMMENT ON FUNCTION check_insert_options(interval, text) IS
    'Error 22023 for what cannot be insert_job''s max_wait and on_reject.';

CREATE FUNCTION raise_busy(max_wait interval) RETURNS void
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RAISE lock_not_available USING
        MESSAGE = format(
            'another open transaction holds the unique key or locks its holder: waited %s ms',
            ceil(extract(epoch FROM max_wait) * 1000)
        ),
        HINT = 'Nothing was inserted. Try again, or allow a longer max_wait.';
END
$$;
COMMENT ON FUNCTION raise_busy(interval) IS 'Error 55P03: max_wait ran out.';

CREATE FUNCTION is_whole(given jsonb, lowest integer, highest integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(given)
        WHEN 'number' THEN given::numeric BETWEEN lowest AND highest AND given::numeric = trunc(given::numeric)
        ELSE given IS NULL
    END;
COMMENT ON FUNCTION is_whole(jsonb, integer, integer) IS
    'Whether JSON is an integer within these limits; also where it is absent.';

CREATE FUNCTION read_job(
    document jsonb,
    OUT id uuid,
    OUT has_given_id boolean,
    OUT kind text,
    OUT queue text,
    OUT args jsonb,
    OUT meta jsonb,
    OUT priority smallint,
    OUT max_attempts smallint,
    OUT scheduled_at timestamptz,
    OUT pending boolean,
    OUT unique_key text,
    OUT unique_states smallint,
    OUT period interval,
    OUT ttl interval,
    OUT until_start boolean,
    OUT discard_on_reentry boolean,
    OUT on_conflict text,
    OUT job_group jsonb
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    members CONSTANT text[] := ARRAY[
        'args', 'group_key', 'group_limit', 'group_policy', 'id', 'in_order', 'kind', 'max_attempts', 'meta', 'pending',
        'priority', 'queue', 'scheduled_at', 'unique_policy'
    ];
    problem text;
    claim record;
BEGIN
    -- null is as good as absent, but in the args, where it is a value.
    problem := CASE
        WHEN jsonb_typeof(document) <> 'object' THEN format('must be an object: %s', left(document::text, 80))
        WHEN document - members <> '{}' THEN
            format('unknown member: %s', (SELECT to_json(m.name) FROM jsonb_object_keys(document - members) AS m (name) LIMIT 1))
        WHEN jsonb_typeof(document -> 'kind') NOT IN ('null', 'string') THEN
            format('invalid kind: must be a string: %s', document -> 'kind')
        WHEN jsonb_typeof(document -> 'queue') NOT IN ('null', 'string') THEN
            format('invalid queue: must be a string: %s', document -> 'queue')
        WHEN jsonb_typeof(document -> 'id') NOT IN ('null', 'string') THEN
            format('invalid id: must be a string: %s', document -> 'id')
        WHEN jsonb_typeof(document -> 'scheduled_at') NOT IN ('null', 'string') THEN
            format('invalid scheduled_at: must be a string: %s', document -> 'scheduled_at')
        -- Not what else a cast takes: "tomorrow", and a time that the session's zone would decide.
        WHEN (document ->> 'scheduled_at') COLLATE "C" !~
            '^[0-9]{4,6}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)? ?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$'
        THEN
            format('invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: %s', document -> 'scheduled_at')
        WHEN jsonb_typeof(document -> 'pending') NOT IN ('null', 'boolean') THEN
            format('invalid pending: must be true or false: %s', document -> 'pending')
        WHEN jsonb_typeof(document -> 'group_key') NOT IN ('null', 'string') THEN
            format('invalid group_key: must be a string: %s', document -> 'group_key')
        WHEN jsonb_typeof(document -> 'in_order') NOT IN ('null', 'boolean') THEN
            format('invalid in_order: must be true or false: %s', document -> 'in_order')
        WHEN jsonb_typeof(document -> 'group_limit') <> 'null' AND NOT is_whole(document -> 'group_limit', 1, 32767) THEN
            format('invalid group_limit: must be 1 to 32767: %s', document -> 'group_limit')
        WHEN jsonb_typeof(document -> 'priority') <> 'null' AND NOT is_whole(document -> 'priority', -32768, 32767) THEN
            format('invalid priority: must be -32768 to 32767: %s', document -> 'priority')
        WHEN jsonb_typeof(document -> 'max_attempts') <> 'null' AND NOT is_whole(document -> 'max_attempts', 1, 32767) THEN
            format('invalid max_attempts: must be 1 to 32767: %s', document -> 'max_attempts')
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    kind := document ->> 'kind';
    queue := coalesce(document ->> 'queue', 'default');
    args := coalesce(document -> 'args', '{}');
    meta := coalesce(nullif(document -> 'meta', 'null'), '{}');
    priority := coalesce(document ->> 'priority', '0')::numeric;
    max_attempts := coalesce(document ->> 'max_attempts', '25')::numeric;
    pending := coalesce(document ->> 'pending', 'false')::boolean;
    scheduled_at := document ->> 'scheduled_at';
    has_given_id := document ->> 'id' IS NOT NULL;
    id := coalesce((document ->> 'id')::uuid, new_job_id());

    SELECT c.* INTO claim
    FROM job_claim(
        kind, args, queue, meta, priority, max_attempts, scheduled_at, nullif(document -> 'unique_policy', 'null')
    ) AS c;
    unique_key := claim.unique_key;
    unique_states := claim.unique_states;
    period := claim.period;
    ttl := claim.ttl;
    until_start := coalesce(claim.until_start, false);
    discard_on_reentry := coalesce(claim.discard_on_reentry, false);
    on_conflict := coalesce(claim.on_conflict, 'ignore');
    IF document ?| '{group_key, group_limit, group_policy, in_order}' THEN
        job_group := job_group_of(
            kind, args, queue, meta, priority, max_attempts, scheduled_at, document ->> 'group_key',
            nullif(document -> 'group_policy', 'null'), (document ->> 'group_limit')::numeric::integer,
            (document ->> 'in_order')::boolean
        );
    END IF;
END
$$;
COMMENT ON FUNCTION read_job(jsonb) IS
    'Reads one of the objects of insert_jobs strictly, and makes its claim. Error 22023 naming the member at fault; 22P02 for an id that is no UUID, another of class 22 for a scheduled_at that is no time.';

CREATE FUNCTION insert_jobs(jobs jsonb, max_wait interval DEFAULT NULL, on_reject text DEFAULT 'error')
RETURNS TABLE (
    index integer, id uuid, state text, duplicate boolean, replaced uuid, unique_key text, outcome text, earlier integer
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    batch record;
    answer record;
    given record;
BEGIN
    PERFORM check_insert_options(max_wait, on_reject);
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid jobs: must be an array of objects: %s', coalesce(left(jobs::text, 80), 'null'));
    END IF;
    BEGIN
        -- In the order of the subquery. An aggregate with an order of its own, or DISTINCT, would change that order for all
        -- of them, from PostgreSQL 16 on.
        SELECT
            array_agg(j.id) AS ids, array_agg(j.kind) AS kinds, array_agg(j.queue) AS queues, array_agg(j.args) AS args,
            array_agg(j.meta) AS metas, array_agg(j.priority) AS priorities, array_agg(j.max_attempts) AS max_attempts,
            CASE WHEN count(j.scheduled_at) > 0 THEN array_agg(j.scheduled_at) ELSE '{}' END AS scheduled_ats,
            CASE WHEN bool_or(j.pending) THEN array_agg(j.pending) ELSE '{}' END AS pendings,
            array_agg(j.unique_key) AS unique_keys, array_agg(j.unique_states) AS unique_states,
            CASE WHEN count(j.period) > 0 THEN array_agg(j.period) ELSE '{}' END AS periods,
            CASE WHEN count(j.ttl) > 0 THEN array_agg(j.ttl) ELSE '{}' END AS ttls,
            array_agg(j.until_start) AS until_starts, array_agg(j.discard_on_reentry) AS discards_on_reentry,
            array_agg(j.on_conflict) AS on_conflicts,
            CASE WHEN count(j.job_group) > 0 THEN jsonb_agg(j.job_group) END AS groups,
            bool_or(j.has_given_id OR j.on_conflict <> 'ignore') AS in_order
        INTO batch
        FROM (
            SELECT r.*
            FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (document, place)
            CROSS JOIN LATERAL read_job(e.document) AS r
            ORDER BY e.place
        ) AS j;
    EXCEPTION
        WHEN data_exception THEN
            -- The first job that cannot be read. One block for all jobs costs less than one for each.
            FOR given IN SELECT e.* FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (document, place) LOOP
                BEGIN
                    PERFORM read_job(given.document);
                EXCEPTION
                    WHEN data_exception THEN
                        RAISE invalid_parameter_value USING MESSAGE = format('job %s: %s', given.place - 1, CASE
                            WHEN SQLSTATE = '22023' THEN SQLERRM
                            WHEN SQLSTATE = '22P02' THEN format('invalid id: must be a UUID: %s', given.document -> 'id')
                            ELSE format('invalid scheduled_at: must be a time with its zone, such as 2026-02-12T15:15:00Z: %s', given.document -> 'scheduled_at')
                        END);
                END;
            END LOOP;
            RAISE;
    END;
    IF batch.ids IS NULL THEN
        RETURN;
    END IF;
    -- What insert_batch does key by key: ids that may be there, another on_conflict, equal keys.
    batch.in_order := batch.in_order
        OR (SELECT count(k.key) > count(DISTINCT k.key COLLATE "C") FROM unnest(batch.unique_keys) AS k (key));

    SELECT
        array_agg(b.place) AS places, array_agg(b.outcome) AS outcomes, array_agg(b.replaced) AS replaced,
        array_agg(b.job_id) AS ids, array_agg(coalesce(b.state, (b.job).state)) AS states
    INTO answer
    FROM insert_batch(
        batch.ids, batch.kinds, batch.queues, batch.args, batch.metas, batch.priorities, batch.max_attempts,
        batch.scheduled_ats, '{}', batch.pendings, batch.unique_keys, batch.unique_states, batch.periods, batch.ttls,
        batch.until_starts, batch.discards_on_reentry, batch.on_conflicts, batch.in_order, max_wait,
        groups => batch.groups
    ) AS b;
    IF 'busy' = ANY (answer.outcomes) THEN
        PERFORM raise_busy(max_wait);
    ELSIF 'rejected' = ANY (answer.outcomes) AND on_reject = 'error' THEN
        RAISE unique_violation USING
            MESSAGE = format(
                'duplicates: %s of %s jobs were rejected, and nothing was inserted',
                cardinality(answer.outcomes), cardinality(batch.ids)
            ),
            DETAIL = (
                SELECT jsonb_agg(
                    CASE
                        WHEN e.place IS NOT NULL THEN jsonb_build_object('index', a.place - 1, 'earlier', e.place - 1)
                        ELSE jsonb_build_object('index', a.place - 1, 'holder', a.id, 'state', a.state)
                    END
                    ORDER BY a.place
                )
                FROM unnest(answer.places, answer.ids, answer.states) AS a (place, id, state)
                LEFT JOIN (
                    SELECT i.id, min(i.place) AS place FROM unnest(batch.ids) WITH ORDINALITY AS i (id, place) GROUP BY i.id
                ) AS e ON e.id = a.id AND e.place < a.place
            ),
            HINT = 'To go on with the transaction, pass on_reject => ''row'', or insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;

    -- An answer without a place stands for every job that no other names.
    RETURN QUERY
    SELECT
        (u.place - 1)::integer,
        CASE WHEN o.outcome = 'inserted' THEN u.id WHEN e.place IS NULL THEN a.id END,
        CASE WHEN o.outcome <> 'not_inserted' AND e.place IS NULL THEN coalesce(a.state, 'available')::text END,
        o.outcome IN ('duplicate', 'updated', 'covered', 'rejected'), a.replaced, u.unique_key, o.outcome,
        (e.place - 1)::integer
    FROM unnest(batch.ids, batch.unique_keys) WITH ORDINALITY AS u (id, unique_key, place)
    LEFT JOIN unnest(answer.places, answer.outcomes, answer.replaced, answer.ids, answer.states)
        AS a (place, outcome, replaced, id, state) ON a.place = u.place
    LEFT JOIN (SELECT i.id, min(i.place) AS place FROM unnest(batch.ids) WITH ORDINALITY AS i (id, place) GROUP BY i.id) AS e
        ON e.id = a.id AND e.place < u.place AND a.outcome = 'rejected'
    CROSS JOIN LATERAL (
        SELECT coalesce(a.outcome, CASE WHEN 'rejected' = ANY (answer.outcomes) THEN 'not_inserted' ELSE 'inserted' END)
    ) AS o (outcome)
    ORDER BY u.place;
END
$$;
COMMENT ON FUNCTION insert_jobs(jsonb, interval, text) IS
    'Inserts many jobs in the caller''s transaction, all or nothing: any mix of kinds, queues and policies. It means what inserting them one after another would mean. Keys are taken in one fixed order, so two batches never deadlock. Answers with a row for each job, in their order.
jobs: an array of objects, whose members are named and meant as the arguments of insert_job: kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy, id, pending, group_key, group_policy, group_limit, in_order. scheduled_at is a text such as 2026-02-12T15:15:00Z, with its zone. An unknown member is an error. max_wait, on_reject: as insert_job.
index: the place in jobs, counted from 0. id, state, duplicate, replaced, unique_key, outcome: as insert_job. A duplicate whose holder a later job of the batch replaces names that job. Where one job is rejected nothing is inserted, and the outcome of the others is not_inserted. earlier: the index of the job in the batch that a rejected one met; that one was not inserted either, so id and state are null.
With on_reject error the DETAIL of error 23505 is [{"index", "holder", "state"}], with {"index", "earlier"} where the holder is a job of the batch. Errors 22023 name the job by its index: job 3: invalid kind: ….';

CREATE FUNCTION claim_end(unique_states smallint, until_start boolean, unique_until timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN unique_states IS NULL THEN NULL
        WHEN until_start THEN 'when a worker fetches it or it is '
        ELSE 'when it is '
    END
    -- The states outside of the claim, less running if a fetch ends it before. The last comma becomes "or".
    || coalesce(
        regexp_replace(
            nullif(
                array_to_string(
                    state_names(~(unique_states | CASE WHEN until_start THEN 64 ELSE 0 END)::smallint & 255::smallint), ', '
                ) COLLATE "C",
                ''
            ),
            ', ([a-z]+)$',
            ' or \1'
        ),
        'deleted'
    )
    || coalesce('; at the latest at ' || to_char(unique_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '');
COMMENT ON FUNCTION claim_end(smallint, boolean, timestamptz) IS
    'When a holder''s claim ends, as a sentence; the arguments are columns of job.';

CREATE FUNCTION explain_insert(
    id uuid,
    kind text,
    queue text,
    unique_key text,
    on_conflict text,
    args jsonb,
    scheduled_at timestamptz,
    delay interval,
    OUT outcome text,
    OUT replaced uuid,
    OUT new_args jsonb,
    OUT new_scheduled_at timestamptz,
    OUT answered_at timestamptz,
    OUT holder job
)
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    -- As in insert_unique.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    answer CONSTANT text := split_part(on_conflict, ' ', 1);
    parameters CONSTANT text[] := string_to_array(on_conflict, ' ');
    longest CONSTANT interval := CASE WHEN answer = 'update' THEN max_delay(on_conflict) END;
    existing job;
    waits boolean;
BEGIN
    answered_at := clock_timestamp();
    IF answer = 'update' THEN
        PERFORM check_max_delay(on_conflict, coalesce(scheduled_at - answered_at, delay));
    END IF;
    SELECT j.* INTO existing FROM job AS j WHERE j.id = explain_insert.id;
    IF FOUND THEN
        PERFORM check_same_job(
            id, existing.kind, existing.queue, existing.args, existing.updates IS NOT NULL, kind, queue, args
        );
    END IF;
    -- An expired claim holds nothing: the insert that meets it releases it.
    SELECT h.* INTO holder
    FROM job AS h
    WHERE h.unique_key = explain_insert.unique_key COLLATE "C"
        AND h.claims
        AND (h.unique_until IS NULL OR h.unique_until > answered_at);
    waits := is_waiting(holder.state);
    -- In the order of settle_jobs.
    IF holder.id IS NULL OR existing.id IS NOT NULL THEN
        outcome := 'inserted';
    ELSIF answer = 'ignore' THEN
        outcome := 'duplicate';
    ELSIF answer = 'run_again' AND waits THEN
        outcome := 'covered';
    ELSIF answer = 'update' AND waits THEN
        outcome := 'updated';
        IF holder.updated_by = id THEN
            new_args := holder.args;
            new_scheduled_at := holder.scheduled_at;
            RETURN;
        END IF;
        PERFORM check_same_kind(holder.id, holder.kind, kind);
        IF NOT is_overdue(
            holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, longest, answered_at
        ) THEN
            new_args := updated_args(holder.args, args, parameters[2], parameters[4]::integer);
        END IF;
        IF new_args IS NULL THEN
            outcome := 'inserted';
            RETURN;
        END IF;
        new_scheduled_at := updated_schedule(
            holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, longest,
            CASE WHEN longest IS NOT NULL THEN coalesce(scheduled_at, answered_at + coalesce(delay, interval '0')) END,
            answered_at
        );
    ELSIF answer = 'preempt' OR (answer IN ('replace', 'replace_except_schedule') AND holder.state <> 'running') THEN
        outcome := 'inserted';
        replaced := holder.id;
    ELSE
        outcome := 'rejected';
    END IF;
END
$$;
COMMENT ON FUNCTION explain_insert(uuid, text, text, text, text, jsonb, timestamptz, interval) IS
    'What settle_jobs would do with one job, without locks or writes. The front door for people is explain_unique. holder: the job that claims the key. new_args, new_scheduled_at: what an update would make of it.';

CREATE FUNCTION explain_unique(
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
    canonical text, unique_key text, outcome text, replaced uuid, holder uuid, holder_state text,
    holder_age interval, claims_in text[], frees text, new_args jsonb, new_scheduled_at timestamptz
)
    LANGUAGE sql STABLE
    ROWS 1
BEGIN ATOMIC
    SELECT
        c.canonical, c.unique_key, e.outcome, e.replaced, (e.holder).id, (e.holder).state::text,
        e.answered_at - (e.holder).created_at, state_names((e.holder).unique_states),
        claim_end((e.holder).unique_states, (e.holder).until_start, (e.holder).unique_until),
        e.new_args, e.new_scheduled_at
    FROM job_claim(
        explain_unique.kind, explain_unique.args, explain_unique.queue, explain_unique.meta, explain_unique.priority,
        explain_unique.max_attempts, explain_unique.scheduled_at, explain_unique.unique_policy
    ) AS c
    CROSS JOIN LATERAL explain_insert(
        -- The caller's collation may be one that cannot split text.
        explain_unique.id, explain_unique.kind, explain_unique.queue, c.unique_key,
        coalesce(c.on_conflict, 'ignore') COLLATE "C", explain_unique.args,
        explain_unique.scheduled_at, NULL
    ) AS e;
END;
COMMENT ON FUNCTION explain_unique(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'What insert_job would do with the same arguments, and why; without locks or writes, so another transaction may change it meanwhile.
canonical: the text whose SHA-256 is the key; null for a raw key. outcome, replaced: as insert_job would answer; inserted also where a job has the id already, and where an update finds the holder full. holder, holder_state, holder_age: the job that claims the key, since its created_at; null where the key is free. claims_in: the states in which the holder claims it. frees: when its claim ends. new_args, new_scheduled_at: the holder''s after the update, where outcome is updated.
Errors 22023 as insert_job.';

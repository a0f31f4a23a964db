-- What an insert does with the job that claims its key: each answer, and the choice among them.

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
    'A job on its way into the table. place: its place in the batch. may_exist: whether a job may have the id already, as where the caller gave it. Of an update, on_conflict has the parameters as _read_update answers.';

CREATE FUNCTION _release_expired(holder uuid) RETURNS boolean
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
COMMENT ON FUNCTION _release_expired(uuid) IS
    'Ends the claim of a job if it has expired, and answers whether it had. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION _release_expired(uuid) FROM PUBLIC;

CREATE FUNCTION _replace_holder(holder uuid, successor uuid, preempt boolean) RETURNS job
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
COMMENT ON FUNCTION _replace_holder(uuid, uuid, boolean) IS
    'Makes a job give up its claim to the job that the caller inserts next, and cancels it unless it is final. preempt: also if it is running. Answers with the job as it is since; null: it claims nothing, or is running. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION _replace_holder(uuid, uuid, boolean) FROM PUBLIC;

CREATE FUNCTION _is_waiting(state job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN state IN ('available', 'pending', 'retryable', 'scheduled');
COMMENT ON FUNCTION _is_waiting(job_state) IS
    'Whether a job in this state waits for its start.';

CREATE FUNCTION _updated_args(held jsonb, given jsonb, mode text, max_items integer) RETURNS jsonb
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
COMMENT ON FUNCTION _updated_args(jsonb, jsonb, text, integer) IS
    'The args of a holder after an update by a duplicate: latest, merge or append. Null: an array would have more than max_items items, or the args more bytes than are allowed. Error 22023: args that are no objects, and for append a member that is no array.';

CREATE FUNCTION _updates_as_one(given jsonb[], mode text, max_bytes bigint) RETURNS jsonb
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
COMMENT ON FUNCTION _updates_as_one(jsonb[], text, bigint) IS
    'The args of several updates, in their order, as those of one update with the same effect. Null: they must be applied in parts, since together they have more than max_bytes, or do not fit each other.';

CREATE FUNCTION _fold_updates(
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
            updated := _updated_args(new_args, given[folded + 1], mode, max_items);
        ELSE
            BEGIN
                as_one := _updates_as_one(
                    given[folded + 1 : folded + size], mode, max_args_bytes - octet_length(new_args::text)
                );
                updated := CASE WHEN as_one IS NOT NULL THEN _updated_args(new_args, as_one, mode, max_items) END;
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
COMMENT ON FUNCTION _fold_updates(jsonb, jsonb[], text, integer) IS
    'The args of a holder after updates by duplicates, one after another, until the holder is full. folded: how many of them it took. Errors as _updated_args.';

CREATE FUNCTION _updated_schedule(
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
COMMENT ON FUNCTION _updated_schedule(
    job_state, timestamptz, timestamptz, timestamptz, interval, timestamptz, timestamptz
) IS
    'When a holder with these columns is due after an update by a duplicate that arrives at this time, wants it due at wanted_at and pushes it up to max_delay. max_delay null: nothing pushes it, if wanted_at is null as well.';

CREATE FUNCTION _is_overdue(
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
COMMENT ON FUNCTION _is_overdue(job_state, timestamptz, timestamptz, timestamptz, interval, timestamptz) IS
    'Whether a waiting job with these columns is due for more than a second, or past the longest delay of an update. Such a job is updated no more: updates queue on its row, and a fetch passes a locked row by.';

CREATE FUNCTION _check_same_kind(holder uuid, held text, given text) RETURNS void
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
COMMENT ON FUNCTION _check_same_kind(uuid, text, text) IS
    'Error 22023 where a duplicate of one kind would update a holder of another.';

CREATE FUNCTION _max_delay(on_conflict text) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN nullif(split_part(on_conflict COLLATE "C", ' ', 3), '0')::bigint * interval '1 microsecond';
COMMENT ON FUNCTION _max_delay(text) IS
    'The longest delay of an update, as _read_update answers it; null: it does not push.';

CREATE FUNCTION _check_max_delay(on_conflict text, delay interval) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path FROM CURRENT
AS $$
BEGIN
    IF delay >= _max_delay(on_conflict) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                'invalid unique policy: update.max_delay: must be longer than the delay: %s and %s',
                _max_delay(on_conflict), delay
            );
    END IF;
END
$$;
COMMENT ON FUNCTION _check_max_delay(text, interval) IS
    'Error 22023 where a job is due after the longest delay of its own policy, so that it could never be pushed. on_conflict: as _read_update answers.';

CREATE FUNCTION _update_holder(holder uuid, run new_job[], OUT settled integer, OUT held job)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    parameters CONSTANT text[] := string_to_array(run[1].on_conflict, ' ');
    longest CONSTANT interval := _max_delay(run[1].on_conflict);
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
        WHERE h.id = holder AND h.claims AND _is_waiting(h.state)
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
    PERFORM _check_same_kind(holder, held.kind, run[1].kind);
    arrived := clock_timestamp();
    IF NOT _is_overdue(held.state, held.attempted_at, held.created_at, held.scheduled_at, longest, arrived) THEN
        SELECT f.new_args, f.folded INTO new_args, settled
        FROM _fold_updates(held.args, ARRAY(SELECT u.args FROM unnest(run) AS u), parameters[2], parameters[4]::integer) AS f;
    END IF;
    IF settled = 0 THEN
        -- Full or overdue. It runs with what it has, and the newcomer takes its claim.
        UPDATE job AS h SET unique_states = 0 WHERE h.id = holder RETURNING h.* INTO held;
        RETURN;
    END IF;
    last := run[settled];
    SELECT _updated_schedule(
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
                THEN greatest(h.unique_until, _length_after(due, ttl))
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
COMMENT ON FUNCTION _update_holder(uuid, new_job[]) IS
    'Changes a waiting job that claims its key as duplicates ask for, one after another (on_conflict update). They have the parameters and the ttl of the first. held: the job as it is then; without claims where it is full or overdue; null where it does not wait and claim any more. settled: how many of the duplicates it took. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION _update_holder(uuid, new_job[]) FROM PUBLIC;

CREATE FUNCTION _cover_holder(holder uuid, only_where_unlocked boolean, changes_it_later boolean) RETURNS boolean
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
            WHERE h.id = holder AND h.claims AND _is_waiting(h.state)
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
            FOR NO KEY UPDATE SKIP LOCKED;
        ELSIF changes_it_later THEN
            PERFORM
            FROM job AS h
            WHERE h.id = holder AND h.claims AND _is_waiting(h.state)
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
            FOR NO KEY UPDATE;
        ELSE
            PERFORM
            FROM job AS h
            WHERE h.id = holder AND h.claims AND _is_waiting(h.state)
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
COMMENT ON FUNCTION _cover_holder(uuid, boolean, boolean) IS
    'Locks a waiting job that claims its key against a start, until the caller''s transaction ends (on_conflict run_again). only_where_unlocked: not where another transaction has it locked. changes_it_later: as strongly as a change does, so that two callers that cover it and then change it do not deadlock. Answers whether it waits, claims and is locked. With the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';
REVOKE EXECUTE ON FUNCTION _cover_holder(uuid, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION _check_same_job(
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
COMMENT ON FUNCTION _check_same_job(uuid, text, text, jsonb, boolean, text, text, jsonb) IS
    'Error 23505 on job_pkey, naming both, where the job that has the id of an insert is not the same: another kind, queue or args. is_updated: duplicates changed its args, which therefore do not count.';

CREATE FUNCTION _check_rounds(rounds integer, sees_holder boolean) RETURNS void
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
COMMENT ON FUNCTION _check_rounds(integer, boolean) IS
    'Error 42501 or 40001 for an insert that lost more than a hundred rounds against rivals for one key.';

CREATE FUNCTION _settle_jobs(
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
        PERFORM _check_max_delay(u.on_conflict, coalesce(u.scheduled_at - clock_timestamp(), u.delay)) FROM unnest(run) AS u;
    END IF;
    -- A rival that committed meanwhile won each round that is lost, so the inserts as a whole make progress.
    LOOP
        rounds := rounds + 1;
        IF rounds > 100 THEN
            PERFORM _check_rounds(rounds, holder.id IS NOT NULL);
        END IF;

        IF given.may_exist THEN
            -- The same insert, sent again.
            SELECT j.* INTO answered FROM job AS j WHERE j.id = given.id;
            IF FOUND THEN
                PERFORM _check_same_job(
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
        waits := _is_waiting(holder.state);

        IF holder.id IS NULL THEN
            NULL;
        ELSIF holder.unique_until <= clock_timestamp() THEN
            PERFORM _release_expired(holder.id);
        ELSIF answer = 'ignore' THEN
            answered := holder;
            outcome := 'duplicate';
            RETURN;
        ELSIF answer = 'run_again' AND waits THEN
            -- Due for long, the holder is in a backlog, or overlapping transactions keep it from its run. Then it is covered
            -- only where no other transaction has it locked.
            is_due_for_long := _is_overdue(
                holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, NULL, clock_timestamp()
            );
            IF _cover_holder(holder.id, is_due_for_long, changes_it_later) THEN
                answered := holder;
                outcome := 'covered';
                RETURN;
            END IF;
            goes_without := is_due_for_long AND EXISTS (
                SELECT FROM job AS h WHERE h.id = holder.id AND h.claims AND _is_waiting(h.state)
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
            SELECT u.* INTO change FROM _update_holder(holder.id, run) AS u;
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
            former := _replace_holder(holder.id, given.id, answer = 'preempt');
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
            coalesce(_length_after(arrived, given.period), _length_after(greatest(arrived, due), given.ttl)),
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
COMMENT ON FUNCTION _settle_jobs(new_job[], timestamptz, boolean) IS
    'Inserts the first of these jobs, or does with the job that claims its key as its on_conflict says. Several jobs are updates with the same key, parameters and ttl, which are applied together where the holder waits. settled: how many of the jobs have this answer. outcome: inserted, duplicate, updated, covered or rejected. answered: the new job or the holder. replaced: the job that the new one took the place of. former: that job as it is since, or the one that gave up its claim. instant: when the batch began; null: now. changes_it_later: whether a later job of the batch may change the holder.';

-- What an insert does with the job that claims its key: each answer, and the choice among them.
--
-- The holder of a key is the job that claims it (job.claims). given is a job to insert, as new_job (V09) has it, and a run is
-- several of one key that are settled together: updates that are alike, or replacements. An update has its terms in changes.
--
-- _settle_jobs takes a run, for _insert_one and _insert_one_by_one (V11). _meet_holder finds the job with the given id
-- (_same_job) and the holder, asks _next_step, and does with the holder what that says:
--
--   ignore, reject  nothing: the holder is the answer
--   release         _release_expired, for a claim or a holder whose time is over
--   cover           _cover_holder, for run_again
--   update          _update_holder, from _updated_job, _fold_updates and _updated_args
--   replace         _replace_holder, also for preempt
--
-- Where no holder answers, _settle_jobs inserts. A rival that was quicker makes it begin anew. Every change of a holder locks
-- it with _lock_holder and runs with the rights of the schema's owner.
--
-- From other files:
--
--   new_job, insert_answer      what is inserted, and what the insert answers (V09)
--   update_terms                what an update changes (V07)
--   job.claims, _state_bit      whether a row claims its key: the bit of its state is in unique_states, and it has not yielded (V01)
--   _has_expired                whether a job missed its expires_at (V01)
--   _discard_expired            discards the job of a holder that missed its expires_at (V28)
--   _length_after               a time and a length, added in UTC (V07)
--   _not_by_partial_index       its argument, in a form that finds rows by their ids (V09)
--   _refuse                     raises error 22023 with a message, unless the message is null (V01)

CREATE FUNCTION _release_expired(holder uuid) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
BEGIN
    UPDATE job AS h
    SET unique_states = 0
    WHERE h.id = holder AND _not_by_partial_index(h.claims) AND h.unique_until <= clock_timestamp();
    RETURN FOUND OR cardinality(_discard_expired(ARRAY[holder])) > 0;
END
$$;
COMMENT ON FUNCTION _release_expired IS 'Ends the claim of a job if the claim has expired, and discards the job if the job has expired. Returns whether it did either. Runs with the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';

CREATE FUNCTION _is_waiting(state job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN state IN ('available', 'pending', 'retryable', 'scheduled');
COMMENT ON FUNCTION _is_waiting IS 'Whether a job in this state waits for a start: available, pending, retryable or scheduled.';

CREATE FUNCTION _may_lock(held job, step text) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
SELECT _not_by_partial_index(held.claims) AND CASE step
    WHEN 'preempt' THEN true
    WHEN 'replace' THEN held.state <> 'running'
    ELSE _is_waiting(held.state) AND (least(held.unique_until, held.expires_at) > clock_timestamp()) IS NOT FALSE
END
$$;
COMMENT ON FUNCTION _may_lock IS 'Whether _lock_holder locks this job: it claims its key. For an update or a cover it waits and has not expired.';

CREATE FUNCTION _lock_holder(holder uuid, step text, waits boolean) RETURNS job
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    held job;
    is_there boolean;
BEGIN
    FOR round IN 1..3 LOOP
        -- A row that is locked in a block keeps its rivals waiting until the whole transaction ends, also after a rollback to a
        -- savepoint. So a free holder is locked outside of a block.
        IF step = 'cover' THEN
            SELECT h.* INTO held FROM job AS h WHERE h.id = holder AND _may_lock(h, step) FOR SHARE SKIP LOCKED;
        ELSE
            SELECT h.* INTO held FROM job AS h WHERE h.id = holder AND _may_lock(h, step) FOR NO KEY UPDATE SKIP LOCKED;
        END IF;
        IF FOUND OR NOT waits THEN
            RETURN held;
        END IF;
        -- The wait is in a block, so that a holder that started or finished meanwhile is not left locked. Then the holder is free
        -- and is locked outside of it. The last round keeps the lock: several that wait would take it from each other.
        BEGIN
            IF step = 'cover' THEN
                SELECT h.* INTO held FROM job AS h WHERE h.id = holder AND _may_lock(h, step) FOR SHARE;
            ELSE
                SELECT h.* INTO held FROM job AS h WHERE h.id = holder AND _may_lock(h, step) FOR NO KEY UPDATE;
            END IF;
            is_there := FOUND;
            IF round < 3 OR NOT is_there THEN
                RAISE EXCEPTION USING ERRCODE = 'UQ002', MESSAGE = 'given back';
            END IF;
        EXCEPTION
            WHEN SQLSTATE 'UQ002' THEN
                IF NOT is_there THEN
                    RETURN NULL;
                END IF;
        END;
    END LOOP;
    RETURN held;
END
$$;
COMMENT ON FUNCTION _lock_holder IS 'Locks the job that claims a key until the caller''s transaction ends, and returns it. step: preempt locks it in any state, replace unless it runs, update and cover while it waits and has not expired. cover: with FOR SHARE. waits: also if another transaction has it locked. Null: it moved on, or is locked.';

CREATE FUNCTION _replace_holder(holder uuid, successor uuid, preempt boolean) RETURNS job
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    replaced job := _lock_holder(holder, CASE WHEN preempt THEN 'preempt' ELSE 'replace' END, true);
BEGIN
    IF replaced.id IS NULL THEN
        RETURN NULL;
    END IF;
    UPDATE job AS h
    SET unique_states = 0,
        -- A final job keeps its outcome, and has no successor.
        replaced_by = CASE WHEN h.finalized_at IS NULL THEN successor ELSE h.replaced_by END,
        state = CASE WHEN h.finalized_at IS NULL THEN 'cancelled' ELSE h.state END,
        finalized_at = coalesce(h.finalized_at, clock_timestamp())
    WHERE h.id = holder
    RETURNING h.* INTO replaced;
    IF replaced.awaited THEN
        PERFORM _wake_releaser();
    END IF;
    RETURN replaced;
END
$$;
COMMENT ON FUNCTION _replace_holder IS 'Ends the claim of a holder in favour of successor, the job that the caller inserts next. Cancels the holder unless it is final. preempt: also if the holder runs. Returns the changed job. Null: the job claims nothing, or it runs and preempt is false. Runs with the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';

CREATE FUNCTION _expiry(run new_job[], due timestamptz, OUT expires_at timestamptz, OUT expires_in interval)
    LANGUAGE sql STABLE
AS $$
SELECT
    CASE WHEN bool_and(e.at IS NOT NULL) THEN max(e.at) END,
    CASE WHEN bool_and(u.expires_in IS NOT NULL) THEN max(u.expires_in) END
FROM unnest(run) AS u
CROSS JOIN LATERAL (SELECT coalesce(u.expires_at, _length_after(due, u.expires_in))) AS e (at)
$$;
COMMENT ON FUNCTION _expiry IS 'When a job that stands for all of these expires: at the latest of their times, after the longest of their lengths. due: what an expires_in counts from. Null: it does not count yet. The result is null if one of the jobs does not expire.';

CREATE FUNCTION _updated_args(held jsonb, given jsonb, mode text, max_items integer) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    max_args_bytes CONSTANT bigint := coalesce(nullif(current_setting('uniqueue.max_args_bytes', true), ''), '1048576');
    updated jsonb;
    misfit text;
BEGIN
    IF mode = 'latest' THEN
        RETURN given;
    ELSIF jsonb_typeof(held) <> 'object' OR jsonb_typeof(given) <> 'object' THEN
        PERFORM _refuse(format('invalid args: update needs objects for %s: %s', mode, left(given::text, 80)));
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
            PERFORM _refuse(format('invalid args: append needs an array in both jobs: %s', to_json(misfit)));
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
COMMENT ON FUNCTION _updated_args IS 'The args of a holder after an update by one duplicate. mode: latest, merge or append. Null: an array would have more than max_items items, or the args would exceed the limit of bytes. Error 22023: args that are no objects, and for append a member that is no array.';

CREATE FUNCTION _updates_as_one(given jsonb[], mode text, max_bytes bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE
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
COMMENT ON FUNCTION _updates_as_one IS 'The args of one update that has the effect of several. Null: they must be applied in parts.';

CREATE FUNCTION _fold_updates(
    held jsonb, given jsonb[], mode text, max_items integer, OUT new_args jsonb, OUT folded integer
)
    LANGUAGE plpgsql STABLE
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
COMMENT ON FUNCTION _fold_updates IS 'The args of a holder after updates in their order, until it is full. folded: how many were applied.';

CREATE FUNCTION _updated_schedule(
    state job_state, attempted_at timestamptz, created_at timestamptz, scheduled_at timestamptz, max_delay interval,
    wanted_at timestamptz, arrived timestamptz
) RETURNS timestamptz
    LANGUAGE sql STABLE
    -- Adding an interval is STABLE. An IMMUTABLE function that calls a STABLE one is not inlined.
    -- Once due, the time stays, so that no stream of updates keeps the job from its run.
    RETURN CASE
        WHEN state = 'scheduled' AND attempted_at IS NULL AND scheduled_at > arrived
            THEN greatest(scheduled_at, least(wanted_at, created_at + max_delay))
        ELSE scheduled_at
    END;
COMMENT ON FUNCTION _updated_schedule IS 'The time at which a holder with these columns is due after an update. arrived: when the duplicate arrived. wanted_at: when the duplicate is due. The time moves later, at most to created_at + max_delay. It stays if max_delay is null, or if the holder is due or has been attempted.';

CREATE FUNCTION _is_overdue(held job, at timestamptz, max_delay interval DEFAULT NULL) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
-- Adding an interval is STABLE. An IMMUTABLE function that calls a STABLE one is not inlined.
SELECT held.state <> 'pending' AND (
    held.scheduled_at < at - interval '1 s'
    OR (held.state = 'scheduled' AND held.attempted_at IS NULL AND held.created_at + max_delay < at - interval '1 s') IS TRUE
)
$$;
COMMENT ON FUNCTION _is_overdue IS 'Whether a waiting job has been due for over a second or is past its longest delay. It is updated no more.';

CREATE FUNCTION _check_max_delay(max_delay interval, delay interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN delay >= max_delay THEN
            format('invalid unique policy: max_delay: must be longer than the delay: %s and %s', max_delay, delay)
    END);
COMMENT ON FUNCTION _check_max_delay IS 'Raises error 22023 if a job is due later than the longest delay of its own policy allows.';

CREATE FUNCTION _updated_job(
    held job, run new_job[], arrived timestamptz, OUT settled integer, OUT new_args jsonb, OUT due timestamptz
)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    changes CONSTANT update_terms := run[1].changes;
    given new_job;
    wanted_at timestamptz;
BEGIN
    settled := 0;
    IF held.kind <> run[1].kind COLLATE "C" THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                'invalid unique policy: update: the unique key is held by job %s of kind %s, not of kind %s',
                held.id, to_json(held.kind), to_json(run[1].kind)
            ),
            HINT = 'An update never changes a job of another kind. Give each kind keys of its own.';
    ELSIF _is_overdue(held, arrived, max_delay => changes.max_delay) THEN
        RETURN;
    ELSIF cardinality(run) = 1 THEN
        new_args := _updated_args(held.args, run[1].args, changes.args, changes.max_items);
        settled := (new_args IS NOT NULL)::integer;
    ELSE
        SELECT f.new_args, f.folded INTO new_args, settled
        FROM _fold_updates(held.args, ARRAY(SELECT u.args FROM unnest(run) AS u), changes.args, changes.max_items) AS f;
    END IF;
    due := held.scheduled_at;
    IF changes.max_delay IS NOT NULL AND settled > 0 THEN
        FOREACH given IN ARRAY run[1 : settled] LOOP
            wanted_at := greatest(wanted_at, given.scheduled_at, arrived + coalesce(given.delay, interval '0'));
        END LOOP;
        due := _updated_schedule(
            held.state, held.attempted_at, held.created_at, held.scheduled_at, changes.max_delay, wanted_at, arrived
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _updated_job IS 'A waiting holder after updates by several duplicates, applied in their order. All duplicates have the changes of the first. settled: the number of updates that were applied. 0: the holder is full or overdue. Error 22023: the holder is of another kind, and as _updated_args.';

CREATE FUNCTION _update_holder(holder uuid, run new_job[], OUT settled integer, OUT held job)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    arrived timestamptz;
    change record;
    last new_job;
    new_at timestamptz;
    new_in interval;
BEGIN
    settled := 0;
    -- The second of two updates waits here for the first, and goes on from its result.
    held := _lock_holder(holder, 'update', true);
    IF held.id IS NULL THEN
        RETURN;
    END IF;
    arrived := clock_timestamp();
    change := _updated_job(held, run, arrived);
    settled := change.settled;
    IF settled = 0 THEN
        -- Full or overdue. It runs with what it has, and the newcomer takes its claim.
        UPDATE job AS h SET unique_states = 0 WHERE h.id = holder RETURNING h.* INTO held;
        RETURN;
    END IF;
    last := run[settled];
    -- Roles that insert may call this. No job may lose attempts to it, or be due at a time that clients cannot read.
    PERFORM _time_may_be(change.due), _refuse(CASE
        WHEN last.max_attempts < 1 THEN format('invalid max_attempts: must be at least 1: %s', last.max_attempts)
    END);
    IF num_nonnulls(held.expires_at, held.expires_in) > 0 THEN
        SELECT e.expires_at, e.expires_in
        INTO new_at, new_in
        FROM _expiry(run[1 : settled], CASE WHEN held.state <> 'pending' THEN greatest(arrived, change.due) END) AS e;
    END IF;
    UPDATE job AS h
    SET args = change.new_args,
        scheduled_at = change.due,
        unique_until = CASE
            WHEN h.unique_until IS NOT NULL AND change.due > h.scheduled_at
                THEN greatest(h.unique_until, _length_after(change.due, last.ttl))
            ELSE h.unique_until
        END,
        -- The latest of their times: no caller's args expire early.
        expires_at = CASE WHEN num_nulls(h.expires_at, new_at) = 0 THEN greatest(h.expires_at, new_at) END,
        expires_in = CASE WHEN num_nulls(h.expires_in, new_in) = 0 THEN greatest(h.expires_in, new_in) END,
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
COMMENT ON FUNCTION _update_holder IS 'Changes a waiting holder as several duplicates with the parameters and the ttl of the first ask for, in their order. held: the job after it. Null: it no longer waits and claims. settled: the number of updates that were applied. 0: the holder was full or overdue, and its claim has ended. Runs with the rights of the schema''s owner, so that roles that insert need no UPDATE on job.';

CREATE FUNCTION _cover_holder(held job, given new_job, changes_it_later boolean) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    -- Due for long, the holder is in a backlog, or overlapping transactions keep it from its run. Then it is covered only
    -- where no other transaction has it locked.
    only_where_unlocked CONSTANT boolean := _is_overdue(held, at);
    new_expiry timestamptz;
    lives_longer boolean := false;
    locked job;
BEGIN
    -- The run that it promises must not expire before the newcomer would.
    IF held.expires_at IS NOT NULL THEN
        new_expiry := (
            _expiry(ARRAY[given], CASE WHEN held.state <> 'pending' THEN greatest(at, held.scheduled_at) END)
        ).expires_at;
        lives_longer := (held.expires_at >= new_expiry) IS NOT TRUE;
    ELSIF held.state = 'pending' AND held.expires_in IS NOT NULL THEN
        lives_longer := (held.expires_in >= given.expires_in) IS NOT TRUE;
    END IF;
    -- A fetch and a promotion pass by a locked job, so its run begins after this transaction has ended. FOR SHARE lets
    -- several transactions cover one job.
    locked := _lock_holder(
        held.id,
        CASE WHEN only_where_unlocked OR changes_it_later OR lives_longer THEN 'update' ELSE 'cover' END,
        NOT only_where_unlocked
    );
    IF locked.id IS NULL THEN
        RETURN CASE
            WHEN only_where_unlocked AND EXISTS (SELECT FROM job AS h WHERE h.id = held.id AND _may_lock(h, 'cover')) THEN 'locked'
            ELSE 'moved on'
        END;
    END IF;
    IF lives_longer THEN
        UPDATE job AS h
        SET expires_at = CASE WHEN num_nulls(h.expires_at, new_expiry) = 0 THEN greatest(h.expires_at, new_expiry) END,
            expires_in = CASE
                WHEN num_nulls(h.expires_in, given.expires_in) = 0 THEN greatest(h.expires_in, given.expires_in)
            END
        WHERE h.id = held.id;
    END IF;
    RETURN 'covered';
END
$$;
COMMENT ON FUNCTION _cover_holder IS 'Locks a waiting holder until the transaction ends, so that its run begins after that (on_conflict run_again), and lets it expire no sooner than the new job would. changes_it_later: takes the lock of a change. Returns covered, locked (the holder is overdue, and another transaction has it) or moved on (it no longer waits and claims). Runs with the rights of the schema''s owner.';

CREATE FUNCTION _same_job(given new_job) RETURNS job
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    existing job;
    -- Updates changed the args of a job that was updated.
    has_other_args boolean;
BEGIN
    SELECT j.* INTO existing FROM job AS j WHERE j.id = given.id;
    has_other_args := existing.updates IS NULL AND existing.args <> given.args;
    IF existing.kind <> given.kind COLLATE "C" OR existing.queue <> given.queue COLLATE "C" OR has_other_args THEN
        RAISE unique_violation USING
            MESSAGE = format(
                'id %s belongs to another job: of kind %s in queue %s%s, and the insert is of kind %s in queue %s',
                given.id, to_json(existing.kind), to_json(existing.queue),
                CASE WHEN has_other_args THEN ' with other args' ELSE '' END, to_json(given.kind), to_json(given.queue)
            ),
            HINT = 'An insert that is sent again has the same kind, queue and args. Another job needs another id.',
            SCHEMA = current_schema(), TABLE = 'job', CONSTRAINT = 'job_pkey';
    END IF;
    RETURN existing;
END
$$;
COMMENT ON FUNCTION _same_job IS 'The job that already has the id of an insert. Null: none. Error 23505: it has another kind, queue or args.';

CREATE FUNCTION _check_rounds(rounds integer, sees_holder boolean) RETURNS void
    LANGUAGE plpgsql STABLE
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
COMMENT ON FUNCTION _check_rounds IS 'Ends an insert that lost more than a hundred rounds against other inserts of one key. Error 42501: row-level security hides the holder from the role. Error 40001: the insert lost 10,000 rounds.';

CREATE FUNCTION _next_step(
    on_conflict text, holder_state job_state, unique_until timestamptz, expires_at timestamptz, at timestamptz
) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN holder_state IS NULL THEN 'insert'
        WHEN unique_until <= at OR _has_expired(expires_at, holder_state, at) THEN 'release'
        WHEN on_conflict = 'ignore' THEN 'ignore'
        WHEN on_conflict = 'run_again' AND _is_waiting(holder_state) THEN 'cover'
        WHEN on_conflict = 'update' AND _is_waiting(holder_state) THEN 'update'
        WHEN on_conflict = 'preempt' THEN 'replace'
        WHEN on_conflict IN ('replace', 'replace_except_schedule') AND holder_state <> 'running' THEN 'replace'
        ELSE 'reject'
    END;
COMMENT ON FUNCTION _next_step IS 'What an insert does: insert, release, ignore, cover, update, replace or reject. holder_state null: no holder.';

CREATE FUNCTION _before_known_id(run new_job[]) RETURNS new_job[]
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    given new_job;
BEGIN
    FOR place IN 2..cardinality(run) LOOP
        given := run[place];
        IF given.may_exist AND EXISTS (SELECT FROM job AS j WHERE j.id = given.id) THEN
            RETURN run[1 : place - 1];
        END IF;
    END LOOP;
    RETURN run;
END
$$;
COMMENT ON FUNCTION _before_known_id IS 'The jobs before the second or a later one whose id a job already has, which is settled by itself.';

CREATE FUNCTION _with_updates(
    run new_job[], state job_state, arrived timestamptz, due timestamptz,
    OUT settled integer, OUT new_args jsonb, OUT new_due timestamptz, OUT passes_on boolean
)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    given CONSTANT new_job := run[1];
    fresh job;
    change record;
BEGIN
    settled := 1;
    new_args := given.args;
    new_due := due;
    passes_on := false;
    IF given.unique_states & _state_bit(state) = 0 THEN
        RETURN;
    END IF;
    fresh.id := given.id;
    fresh.kind := given.kind;
    fresh.args := given.args;
    fresh.state := state;
    fresh.created_at := arrived;
    fresh.scheduled_at := due;
    run := _before_known_id(run);
    change := _updated_job(fresh, run[2 :], arrived);
    IF change.settled > 0 THEN
        settled := 1 + change.settled;
        new_args := change.new_args;
        new_due := change.due;
    END IF;
    passes_on := settled < cardinality(run);
END
$$;
COMMENT ON FUNCTION _with_updates IS 'The first of these jobs as it is inserted, after the updates by the jobs behind it. settled: the number of jobs that this covers, the first included. passes_on: the first job is full, and the next job takes its claim.';

CREATE FUNCTION _meet_holder(
    run new_job[], changes_it_later boolean,
    OUT outcome text, OUT holder job, OUT settled integer, OUT replaced job, OUT kept_schedule timestamptz
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    given CONSTANT new_job := run[1];
    arrived CONSTANT timestamptz := clock_timestamp();
    change record;
BEGIN
    settled := 1;
    IF given.on_conflict = 'update' THEN
        PERFORM _check_max_delay((u.changes).max_delay, coalesce(u.scheduled_at - arrived, u.delay))
        FROM unnest(run) AS u
        WHERE num_nonnulls(u.scheduled_at, u.delay) > 0;
    END IF;
    IF given.may_exist THEN
        holder := _same_job(given);
        IF holder.id IS NOT NULL THEN
            -- The same insert, sent again.
            outcome := 'inserted';
            RETURN;
        END IF;
    END IF;
    SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = given.unique_key AND h.claims;
    CASE _next_step(given.on_conflict, holder.state, holder.unique_until, holder.expires_at, arrived)
        WHEN 'ignore' THEN
            outcome := 'duplicate';
        WHEN 'reject' THEN
            outcome := 'rejected';
        WHEN 'release' THEN
            PERFORM _release_expired(holder.id);
        WHEN 'cover' THEN
            outcome := _cover_holder(holder, given, changes_it_later);
        WHEN 'update' THEN
            outcome := 'updated';
            -- Otherwise the same insert, sent again.
            IF holder.updated_by IS DISTINCT FROM given.id THEN
                change := _update_holder(holder.id, CASE WHEN cardinality(run) > 1 THEN _before_known_id(run) ELSE run END);
                holder := change.held;
                settled := change.settled;
                outcome := CASE WHEN settled > 0 THEN 'updated' ELSE 'moved on' END;
            END IF;
        WHEN 'replace' THEN
            replaced := _replace_holder(holder.id, given.id, given.on_conflict = 'preempt');
            outcome := CASE WHEN replaced.id IS NULL THEN 'moved on' END;
            -- A holder that was due at its insert, or that has started, has no time to keep. One that became available when due
            -- has, and so has one that an operator rescheduled or released. The last of several keeps only a time to come: the
            -- first of them is available once it is due.
            IF given.on_conflict = 'replace_except_schedule' AND (cardinality(run) = 1 OR holder.scheduled_at > arrived)
                AND (holder.state = 'scheduled' OR (
                    holder.state IN ('available', 'pending') AND holder.attempt = 0 AND holder.scheduled_at > holder.created_at
                ))
            THEN
                kept_schedule := holder.scheduled_at;
            END IF;
        ELSE
            NULL;
    END CASE;
END
$$;
COMMENT ON FUNCTION _meet_holder IS 'Does with the holder of a key what the first job of a run says. outcome: inserted (sent again), duplicate, rejected, covered or updated: the holder answers for as many jobs as settled says. moved on: a rival was quicker, or the holder is full and gave up its claim. locked: insert without the claim. Null: insert. replaced: the job that the new one replaces.';

CREATE FUNCTION _settle_jobs(
    run new_job[], instant timestamptz, changes_it_later boolean,
    OUT settled integer, OUT answer insert_answer, OUT former uuid, OUT stopped uuid, OUT passes_on boolean,
    OUT replaced_in_turn boolean
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    given new_job := run[1];
    is_update CONSTANT boolean := given.on_conflict = 'update';
    rounds integer := 0;
    met record;
    change record;
    replaced job;
    goes_without boolean := false;
    arrived timestamptz;
    due timestamptz;
    first_state job_state;
    -- The jobs that the new job stands for. Null: itself.
    updates new_job[];
BEGIN
    -- A rival that committed meanwhile won each round that is lost, so the inserts as a whole make progress.
    LOOP
        -- PL/pgSQL prepares each expression anew in each transaction. So a job that can meet no other passes few of them.
        IF given.unique_key IS NOT NULL OR given.may_exist THEN
            met := _meet_holder(run, changes_it_later);
            rounds := rounds + 1;
            IF rounds > 100 THEN
                PERFORM _check_rounds(rounds, (met.holder).id IS NOT NULL);
            END IF;
            settled := met.settled;
            passes_on := false;
            IF met.outcome IN ('inserted', 'duplicate', 'rejected', 'covered', 'updated') THEN
                answer.outcome := met.outcome;
                answer.unique_key := (met.holder).unique_key;
                answer.id := (met.holder).id;
                answer.state := (met.holder).state;
                answer.job := met.holder;
                RETURN;
            ELSIF met.outcome = 'moved on' THEN
                former := CASE WHEN is_update THEN coalesce((met.holder).id, former) ELSE former END;
                CONTINUE;
            END IF;
            goes_without := met.outcome IS NOT NULL;
            answer.unique_key := given.unique_key;
            IF (met.replaced).id IS NOT NULL THEN
                replaced := met.replaced;
                former := replaced.id;
                answer.replaced := replaced.id;
                stopped := CASE WHEN replaced.state = 'cancelled' THEN replaced.worker END;
                given.scheduled_at := coalesce(met.kept_schedule, given.scheduled_at);
            END IF;
        END IF;

        arrived := clock_timestamp();
        due := coalesce(given.scheduled_at, coalesce(instant, arrived) + coalesce(given.delay, interval '0'));
        first_state := CASE WHEN given.is_pending THEN 'pending' WHEN due > arrived THEN 'scheduled' ELSE 'available' END;
        IF cardinality(run) > 1 AND is_update THEN
            change := _with_updates(run, first_state, arrived, due);
            settled := change.settled;
            updates := CASE WHEN settled > 1 THEN run[1 : settled] END;
            passes_on := change.passes_on;
            due := change.new_due;
            given.args := change.new_args;
        ELSIF cardinality(run) > 1 AND given.unique_states & _state_bit(first_state) <> 0 THEN
            replaced_in_turn := true;
            settled := cardinality(run);
            given := run[settled];
        END IF;
        IF num_nonnulls(given.expires_at, given.expires_in) > 0 THEN
            SELECT e.expires_at, e.expires_in
            INTO given.expires_at, given.expires_in
            FROM _expiry(coalesce(updates, ARRAY[given]), CASE WHEN NOT given.is_pending THEN greatest(arrived, due) END) AS e;
        END IF;
        INSERT INTO job AS j (
            id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
            unique_key, unique_states, unique_until, until_start, discard_on_reentry, unique_yielded,
            group_key, group_limit, in_order, began, updates, updated_at, updated_by, awaited, expires_at, expires_in
        )
        VALUES (
            given.id, given.kind, given.queue, given.args, given.meta, given.priority, given.max_attempts, arrived, due,
            first_state, given.unique_key, CASE WHEN passes_on THEN 0 ELSE given.unique_states END,
            coalesce(_length_after(arrived, given.period), _length_after(greatest(arrived, due), given.ttl)),
            given.until_start, given.discard_on_reentry, goes_without, given.group_key, given.group_limit, given.in_order,
            -- What it replaced was first in its group, and so is the successor.
            CASE
                WHEN replaced.began IS NOT NULL AND given.in_order
                    AND (replaced.queue, replaced.group_key) = (given.queue, given.group_key) THEN 0
            END,
            cardinality(updates) - 1,
            CASE WHEN updates IS NOT NULL THEN arrived END, CASE WHEN updates IS NOT NULL THEN (run[settled]).id END,
            -- The children of what it replaced will wait for it, so a runner must not delete it when it completes.
            CASE WHEN replaced.replaced_by = (run[1]).id THEN replaced.awaited END,
            given.expires_at, given.expires_in
        )
        ON CONFLICT DO NOTHING
        RETURNING j.id, j.state, j.created_at, j.scheduled_at, j.unique_until, CASE WHEN goes_without THEN j::job END
        INTO answer.id, answer.state, answer.created_at, answer.scheduled_at, answer.unique_until, answer.job;
        IF FOUND THEN
            IF replaced_in_turn THEN
                -- The others were replaced by the next one, and never claim their key.
                INSERT INTO job (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state, finalized_at,
                    replaced_by, unique_key, unique_states, unique_until, until_start, discard_on_reentry, group_key,
                    group_limit, in_order, awaited, expires_at, expires_in
                )
                SELECT
                    r.id, r.kind, r.queue, r.args, r.meta, r.priority, r.max_attempts, arrived, due, 'cancelled', arrived,
                    r.successor, r.unique_key, 0,
                    coalesce(_length_after(arrived, r.period), _length_after(greatest(arrived, due), r.ttl)), r.until_start,
                    r.discard_on_reentry, r.group_key, r.group_limit, r.in_order,
                    CASE WHEN replaced.replaced_by = (run[1]).id THEN replaced.awaited END,
                    coalesce(
                        r.expires_at, CASE WHEN NOT r.is_pending THEN _length_after(greatest(arrived, due), r.expires_in) END
                    ),
                    r.expires_in
                FROM (SELECT u.*, lead(u.id) OVER (ORDER BY u.place) AS successor FROM unnest(run) AS u) AS r
                WHERE r.successor IS NOT NULL;
            END IF;
            answer.outcome := 'inserted';
            RETURN;
        END IF;
        run[1].may_exist := true;
        given := run[1];
        replaced_in_turn := false;
        updates := NULL;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _settle_jobs IS 'Inserts the first job of a run, or lets the holder of the key answer. instant: when the batch began. Null: now. changes_it_later: a later job may change the holder. settled: how many jobs it answers. Null: one. former: the job whose claim ended. stopped: the runner of a job that was cancelled. passes_on: the claim went to the next job. replaced_in_turn: each was replaced by the next.';

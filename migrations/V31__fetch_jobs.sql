-- Remote workers: programs in any language that fetch jobs by SQL.
--
-- A remote worker is a row of runner, which fetch_jobs makes and keeps alive: its name, queues and kinds. Each job that it
-- fetches is reserved for it, and is taken back by itself after that (_rescue_jobs). The row is alive for twice as long as
-- the longest reservation of its jobs, so that a clock which goes back ends both (_end_future_times).

CREATE FUNCTION _check_reserve(reserve interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN reserve BETWEEN interval '1 s' AND interval '1 day' THEN true
        ELSE _refuse(format('invalid reserve: must be 1 second to 1 day: %s', coalesce(reserve::text, 'null')))
    END;
COMMENT ON FUNCTION _check_reserve IS 'Raises error 22023 if a reservation is shorter than a second or longer than a day.';

CREATE FUNCTION _check_fetch(queues text[], worker text, count integer, kinds text[], reserve interval) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    queue_name text;
BEGIN
    IF coalesce(cardinality(queues), 0) NOT BETWEEN 1 AND 100 THEN
        RETURN _refuse(format('invalid queues: must be 1 to 100 names: %s', coalesce(cardinality(queues), 0)));
    END IF;
    FOREACH queue_name IN ARRAY queues LOOP
        PERFORM _queue_may_be(queue_name);
    END LOOP;
    IF coalesce(octet_length(worker), 0) NOT BETWEEN 1 AND 128 THEN
        RETURN _refuse(format('invalid worker: must be a name of 1 to 128 bytes: %s', coalesce(to_json(worker)::text, 'null')));
    ELSIF (count BETWEEN 1 AND 1000) IS NOT TRUE THEN
        RETURN _refuse(format('invalid count: must be 1 to 1000: %s', coalesce(count::text, 'null')));
    ELSIF kinds = '{}' OR array_position(kinds, NULL) IS NOT NULL THEN
        RETURN _refuse('invalid kinds: must be null, for any kind, or an array of names');
    END IF;
    RETURN _check_reserve(reserve);
END
$$;
COMMENT ON FUNCTION _check_fetch IS 'Raises error 22023 if an argument of fetch_jobs is invalid.';

CREATE FUNCTION _keep_alive(workers uuid[], reserve interval) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    -- Four times a lease, as runners do. A row that another transaction has locked is left for the next time.
    UPDATE runner AS r
    SET heartbeat_at = at, leased_until = at + 2 * reserve
    WHERE r.id = ANY (ARRAY(
        SELECT w.id
        FROM runner AS w
        WHERE w.id = ANY (workers) AND (w.leased_until < at + 1.5 * reserve OR w.heartbeat_at > at)
        FOR NO KEY UPDATE SKIP LOCKED
    ));
END
$$;
COMMENT ON FUNCTION _keep_alive IS
    'Extends the leases of remote workers to twice the reservation, if less than one and a half reservations are left.';

CREATE FUNCTION _enter_worker(worker text, queues text[], kinds text[], reserve interval) RETURNS runner
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    all_queues CONSTANT text[] := ARRAY(SELECT DISTINCT q.name COLLATE "C" FROM unnest(queues) AS q (name) ORDER BY 1);
    all_kinds CONSTANT text[] := CASE
        WHEN kinds IS NOT NULL THEN ARRAY(SELECT DISTINCT k.kind COLLATE "C" FROM unnest(kinds) AS k (kind) ORDER BY 1)
    END;
    worker_id CONSTANT uuid := _name_id(jsonb_build_array(worker, all_queues, all_kinds)::text);
    entered runner;
BEGIN
    SELECT r.* INTO entered FROM runner AS r WHERE r.id = worker_id;
    IF NOT FOUND THEN
        INSERT INTO runner (id, name, queues, kinds, leased_until, heartbeat_at, knows_groups, remote)
        VALUES (
            worker_id, worker, all_queues, all_kinds, clock_timestamp() + 2 * reserve, clock_timestamp(), true, '{}'
        )
        ON CONFLICT (id) DO NOTHING;
        SELECT r.* INTO entered FROM runner AS r WHERE r.id = worker_id;
    ELSIF entered.leased_until < clock_timestamp() + 1.5 * reserve OR entered.heartbeat_at > clock_timestamp() THEN
        PERFORM _keep_alive(ARRAY[worker_id], reserve);
    END IF;
    RETURN entered;
END
$$;
COMMENT ON FUNCTION _enter_worker IS
    'The row of a remote worker. Inserts the row if there is none, and extends its lease. The id of the row is made from name, queues and kinds.';

CREATE FUNCTION _suspect_time(first interval, crashes integer, longest interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN least(first * power(4, least(greatest(crashes - 2, 0), 9)), longest);
COMMENT ON FUNCTION _suspect_time IS 'A time that grows fourfold with each crash after the second, up to the longest.';

CREATE FUNCTION _plan_fetch(
    worker runner, OUT suspects integer, OUT is_alone boolean, OUT is_draining boolean, OUT may_drain boolean
)
    LANGUAGE plpgsql VOLATILE
AS $$
-- As runners do: a job that crashed once is fetched where no other suspect of the worker has run for less than 10 s. A job
-- that crashed more often is fetched alone: the worker starts nothing until its jobs have ended, or for 2 s; then it gets
-- that job, and nothing else for 10 s. Both times grow with each crash.
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    drains_until CONSTANT timestamptz := (worker.remote ->> 'drains_until')::timestamptz;
    rests_until CONSTANT timestamptz := (worker.remote ->> 'rests_until')::timestamptz;
    hand record;
BEGIN
    SELECT
        count(*) AS running,
        count(*) FILTER (WHERE j.crashes = 1 AND j.attempted_at > at - interval '10 s') AS on_trial,
        coalesce(bool_or(
            j.crashes > 1 AND j.attempted_at > at - _suspect_time(interval '10 s', j.crashes, interval '40 s')
        ), false) AS has_one_alone
    INTO hand
    FROM unnest(worker.queues) AS q (name)
    CROSS JOIN LATERAL (
        SELECT r.crashes, r.attempted_at FROM job AS r WHERE r.queue = q.name AND r.worker = worker.id AND r.state = 'running'
    ) AS j;
    is_draining := hand.has_one_alone OR (hand.running > 0 AND drains_until BETWEEN at AND at + interval '40 s');
    is_alone := drains_until IS NOT NULL;
    suspects := CASE WHEN hand.on_trial = 0 THEN 1 ELSE 0 END;
    may_drain := hand.on_trial = 0 AND (rests_until BETWEEN at AND at + interval '40 s') IS NOT TRUE;
END
$$;
COMMENT ON FUNCTION _plan_fetch IS
    'Which suspects a remote worker may fetch, given the jobs that it has. suspects: how many. is_draining: the worker gets no job, because a suspect runs alone or is about to. is_alone: the worker gets one suspect that crashed twice or more, which then runs alone. may_drain: whether a suspect that waits to run alone stops the fetches after this one.';

CREATE FUNCTION _set_aside(worker_id uuid, wanted jsonb, kinds text[], except_ids uuid[], aside jsonb) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE
AS $$
-- As runners do: a job whose row cannot be read three times in a row is discarded. A start that is refused costs no job,
-- since the error may be one of a trigger.
DECLARE
    tried record;
    failures integer;
    found jsonb := '{}';
    example text;
BEGIN
    FOR tried IN
        SELECT
            t.id, t.problem,
            t.code IS NULL OR t.bytes IS NULL AND left(t.code, 2) IN ('22', '54', '58', 'XX') AS is_unreadable
        FROM try_jobs(
            ARRAY(
                SELECT n.id
                FROM _next_jobs(
                    ARRAY[wanted #>> '{0, name}'], ARRAY[(wanted #>> '{0, free}')::integer], kinds, except_ids
                ) AS n
            ),
            worker_id
        ) AS t
        -- The text of a value may have six times its bytes, and no text has more than 1 GB.
        WHERE NOT t.is_locked AND (t.code IS NOT NULL OR t.bytes > 178956970)
    LOOP
        failures := coalesce((aside #>> ARRAY[tried.id::text, 'unreadable'])::integer, 0) + 1;
        IF tried.is_unreadable AND failures >= 3 THEN
            PERFORM _discard_damaged(
                tried.id, 'the job''s row cannot be read: ' || coalesce(tried.problem, 'the text of its values may exceed 1 GB')
            );
        END IF;
        found := found || jsonb_build_object(tried.id, CASE
            WHEN tried.is_unreadable
                THEN jsonb_build_object('until', clock_timestamp() + interval '1 s', 'unreadable', failures)
            ELSE jsonb_build_object('until', clock_timestamp() + interval '1 minute')
        END);
        example := coalesce(example, format('%s: %s', tried.id, tried.problem));
    END LOOP;
    IF found = '{}' THEN
        RETURN NULL;
    END IF;
    RAISE WARNING 'jobs that cannot be started are set aside: %, such as %',
        (SELECT count(*) FROM jsonb_object_keys(found)), example;
    RETURN found;
END
$$;
COMMENT ON FUNCTION _set_aside IS
    'Tries the next jobs of a queue one by one, after a fetch failed. Returns the jobs that the remote worker must skip, as in runner.remote. Null: each job can be started. aside: the jobs that it skipped before. Discards a job whose row cannot be read for the third time.';

CREATE FUNCTION _discard_damaged(job_id uuid, reason text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    keep_errors boolean;
    problem text;
BEGIN
    FOREACH keep_errors IN ARRAY '{true, false}'::boolean[] LOOP
        BEGIN
            RETURN _discard_unreadable(job_id, reason, keep_errors);
        EXCEPTION
            WHEN others THEN
                problem := SQLERRM;
        END;
    END LOOP;
    RAISE WARNING 'a job that cannot be read cannot be discarded: %: %', job_id, problem;
    RETURN false;
END
$$;
COMMENT ON FUNCTION _discard_damaged IS
    'Discards a job that cannot be read. If its errors cannot be read either, the reason replaces them. Returns whether the job is out of the way.';

CREATE FUNCTION _fetch_queue(
    worker_id uuid,
    wanted jsonb,
    kinds text[],
    suspects integer,
    is_alone boolean,
    reserve interval,
    INOUT aside jsonb,
    OUT ids uuid[],
    OUT facts jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
-- A job that cannot be read, or that the database refuses to start, fails the whole fetch. The error names no job.
-- The values are read here, since nothing can be caught any more when the rows are sent.
DECLARE
    except_ids uuid[] := ARRAY(
        SELECT a.id::uuid
        FROM jsonb_each(aside) AS a (id, job)
        WHERE (a.job ->> 'until')::timestamptz BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute'
    );
    found jsonb;
    bytes bigint;
BEGIN
    -- Behind the jobs that are set aside may be more jobs that cannot be read.
    FOR round IN 1..10 LOOP
        BEGIN
            SELECT
                array_agg(f.id) FILTER (WHERE f.id IS NOT NULL), (array_agg(f.facts) FILTER (WHERE f.id IS NULL))[1],
                sum(
                    coalesce(octet_length(f.args::text), 0)::bigint + coalesce(octet_length(f.meta::text), 0)
                    + coalesce(octet_length(f.errors::text), 0) + coalesce(octet_length(f.progress::text), 0)
                )
            INTO ids, facts, bytes
            FROM _fetch_jobs(
                worker_id, wanted, kinds, except_ids, suspects, is_alone, '{}', '{}', '{}', '{}', reserve
            ) AS f;
            RETURN;
        EXCEPTION
            WHEN feature_not_supported OR transaction_rollback OR insufficient_resources OR lock_not_available THEN
                RAISE;
            WHEN others THEN
                ids := NULL;
                facts := NULL;
                found := _set_aside(worker_id, wanted, kinds, except_ids, aside);
                IF found IS NULL AND round = 1 THEN
                    RAISE;
                END IF;
        END;
        EXIT WHEN found IS NULL;
        aside := coalesce(aside, '{}') || found;
        except_ids := except_ids || ARRAY(SELECT k.id::uuid FROM jsonb_object_keys(found) AS k (id));
    END LOOP;
END
$$;
COMMENT ON FUNCTION _fetch_queue IS
    'Starts the next jobs of one queue, as _fetch_jobs does. ids: the jobs. Null: none. aside: the jobs that the worker skips, as in runner.remote. The argument has the jobs that the worker skipped before, the result the jobs that it skips from now on.';

CREATE FUNCTION _start_remote(worker runner, queues text[], count integer, kinds text[], reserve interval) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    plan record := _plan_fetch(worker);
    memory jsonb := worker.remote;
    is_alone boolean;
    name text;
    free integer;
    got record;
    reached text;
    crashes integer;
    started uuid[] := '{}';
BEGIN
    IF plan.is_draining THEN
        RETURN started;
    END IF;
    FOREACH is_alone IN ARRAY CASE WHEN plan.is_alone THEN '{true, false}' ELSE '{false}' END::boolean[] LOOP
        FOREACH name IN ARRAY queues LOOP
            free := count - cardinality(started);
            SELECT f.* INTO got
            FROM _fetch_queue(
                worker.id,
                jsonb_build_array(jsonb_build_object(
                    'name', name, 'free', free, 'idle', free, 'after_group', coalesce(memory #>> ARRAY['after', name], ''),
                    'visits', greatest(1000, 2 * free), 'freed', '{}'::text[]
                )),
                kinds, CASE WHEN is_alone THEN 1 ELSE plan.suspects END, is_alone, reserve, memory -> 'aside'
            ) AS f;
            IF got.aside IS NOT NULL THEN
                memory := memory || jsonb_build_object('aside', got.aside);
            END IF;
            started := started || got.ids;
            -- The facts are of this queue alone, and only where something guards it.
            reached := got.facts #>> '{queues, 0, visit, reached}';
            IF reached IS DISTINCT FROM memory #>> ARRAY['after', name] AND reached IS NOT NULL THEN
                memory := memory || jsonb_build_object(
                    'after', coalesce(memory -> 'after', '{}') || jsonb_build_object(name, reached)
                );
            END IF;
            crashes := got.facts #>> '{queues, 0, alone_crashes}';
            IF crashes IS NOT NULL AND plan.may_drain AND NOT is_alone THEN
                memory := memory || jsonb_build_object(
                    'drains_until', clock_timestamp() + _suspect_time(interval '2 s', crashes, interval '32 s')
                );
            END IF;
            EXIT WHEN cardinality(started) >= CASE WHEN is_alone THEN 1 ELSE count END;
        END LOOP;
        IF is_alone THEN
            -- Others have their turn before the next suspect runs alone.
            memory := memory - 'drains_until' || jsonb_build_object(
                'rests_until', clock_timestamp() + CASE WHEN started = '{}' THEN interval '2 s' ELSE interval '20 s' END
            );
            plan.may_drain := false;
            EXIT WHEN started <> '{}';
        END IF;
    END LOOP;
    IF memory <> worker.remote THEN
        IF memory ? 'aside' THEN
            -- A job that can be started is forgotten after a while, and so is how often it could not be read.
            memory := memory || jsonb_build_object('aside', (
                SELECT coalesce(jsonb_object_agg(a.id, a.job), '{}')
                FROM jsonb_each(memory -> 'aside') AS a (id, job)
                WHERE (a.job ->> 'until')::timestamptz
                    BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp() + interval '1 minute'
            ));
        END IF;
        -- Never waits for another process of the name.
        UPDATE runner AS r
        SET remote = memory
        WHERE r.id = ANY (ARRAY(SELECT w.id FROM runner AS w WHERE w.id = worker.id FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
    RETURN started;
END
$$;
COMMENT ON FUNCTION _start_remote IS
    'Starts the next jobs of these queues for a remote worker, at most count. Jobs of the first queue come first. Returns their ids. Some of them may have been discarded, because another job holds their key.';

CREATE FUNCTION fetch_jobs(
    queues text[],
    worker text,
    count integer DEFAULT 1,
    kinds text[] DEFAULT NULL,
    reserve interval DEFAULT '1 minute',
    listens boolean DEFAULT false
) RETURNS TABLE (
    id uuid, run integer, kind text, queue text, args jsonb, meta jsonb, attempt integer, max_attempts integer,
    priority integer, crashes integer, created_at timestamptz, scheduled_at timestamptz, reserved_until timestamptz,
    errors jsonb, progress jsonb, unique_key text, group_key text, worker_id uuid, timeout interval
)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    ROWS 10
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
DECLARE
    entered runner;
    started uuid[];
    wants_wake_ups boolean;
BEGIN
    PERFORM _check_fetch(fetch_jobs.queues, fetch_jobs.worker, fetch_jobs.count, fetch_jobs.kinds, fetch_jobs.reserve);
    entered := _enter_worker(fetch_jobs.worker, fetch_jobs.queues, fetch_jobs.kinds, fetch_jobs.reserve);
    started := _start_remote(
        entered, fetch_jobs.queues, fetch_jobs.count, fetch_jobs.kinds, fetch_jobs.reserve
    );
    IF cardinality(started) > 0 THEN
        RETURN QUERY
        SELECT
            j.id, j.run, j.kind::text, j.queue::text, j.args, j.meta::jsonb, j.attempt::integer, j.max_attempts::integer,
            j.priority::integer, j.crashes::integer, j.created_at, j.scheduled_at, j.reserved_until, j.errors, j.progress,
            j.unique_key::text, j.group_key::text, j.worker,
            (SELECT k.timeout FROM kind AS k WHERE k.name = j.kind)
        FROM job AS j
        WHERE j.id = ANY (started) AND _not_by_partial_index(j.state = 'running')
        ORDER BY array_position(fetch_jobs.queues, j.queue::text), j.priority DESC, j.scheduled_at, j.id;
    END IF;
    -- A fetch also stores the counts, so they are current soon after the last result, and the rate of an idle worker falls.
    IF position(entered.id::text IN coalesce(current_setting('uniqueue.worked', true), '')) > 0 THEN
        PERFORM _count_results(entered.id, 0, 0);
    ELSIF entered.lately_completed + entered.lately_failed > 0 AND entered.counted_at < clock_timestamp() - interval '5 s' THEN
        PERFORM _store_counts(entered.id, 0, 0);
    END IF;
    wants_wake_ups := fetch_jobs.listens AND cardinality(started) = 0;
    IF entered.idle <> wants_wake_ups THEN
        UPDATE runner AS r
        SET idle = wants_wake_ups
        WHERE r.id = ANY (ARRAY(SELECT w.id FROM runner AS w WHERE w.id = entered.id FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
END
$$;
COMMENT ON FUNCTION fetch_jobs IS
    'For remote workers: starts the next jobs of these queues and returns them in the order of work. Jobs of the first queue come first. worker: the name of the process. reserve: how long the jobs are its own, unless extend_jobs extends it. listens: if no job comes, the next insert notifies. Pass run to every later call. Runs with the rights of the schema''s owner. See docs/learn/any-language.md.';
REVOKE EXECUTE ON FUNCTION fetch_jobs FROM PUBLIC;

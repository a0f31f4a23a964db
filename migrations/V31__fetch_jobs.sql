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
COMMENT ON FUNCTION _check_reserve(interval) IS 'Error 22023 where a reservation is shorter than a second or longer than a day.';

CREATE FUNCTION _check_fetch(queues text[], worker text, count integer, kinds text[], reserve interval) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
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
COMMENT ON FUNCTION _check_fetch(text[], text, integer, text[], interval) IS 'Error 22023 where an argument of fetch_jobs is invalid.';

CREATE FUNCTION _keep_alive(workers uuid[], reserve interval) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    kept integer;
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
    GET DIAGNOSTICS kept = ROW_COUNT;
    RETURN kept;
END
$$;
COMMENT ON FUNCTION _keep_alive(uuid[], interval) IS
    'Lets remote workers count as alive for twice the reservation from now on, where less than one and a half is left. Returns how many rows it changed.';

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
        ON CONFLICT DO NOTHING;
        SELECT r.* INTO entered FROM runner AS r WHERE r.id = worker_id;
    ELSIF entered.leased_until < clock_timestamp() + 1.5 * reserve OR entered.heartbeat_at > clock_timestamp() THEN
        PERFORM _keep_alive(ARRAY[worker_id], reserve);
    END IF;
    RETURN entered;
END
$$;
COMMENT ON FUNCTION _enter_worker(text, text[], text[], interval) IS
    'The row of a remote worker: made where there is none, and kept alive. Its id is made of its name, queues and kinds.';

CREATE FUNCTION _remember(worker_id uuid, memory jsonb) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
BEGIN
    -- Never waits for another process of the name.
    UPDATE runner AS r
    SET remote = memory
    WHERE r.id = ANY (ARRAY(SELECT w.id FROM runner AS w WHERE w.id = worker_id FOR NO KEY UPDATE SKIP LOCKED));
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION _remember(uuid, jsonb) IS 'Sets what fetch_jobs remembers of a remote worker (runner.remote), where no other transaction has its row locked.';

CREATE FUNCTION _suspect_time(first interval, crashes integer, longest interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    RETURN least(first * power(4, least(greatest(crashes - 2, 0), 9)), longest);
COMMENT ON FUNCTION _suspect_time(interval, integer, interval) IS
    'A time that grows fourfold with each crash after the second, up to the longest.';

CREATE FUNCTION _plan_fetch(
    worker runner, OUT suspects integer, OUT is_alone boolean, OUT is_draining boolean, OUT may_drain boolean
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
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
COMMENT ON FUNCTION _plan_fetch(runner) IS
    'Which suspects a remote worker may fetch, by the jobs that it has. is_draining: nothing, since a suspect runs alone or is about to. is_alone: first one that crashed twice or more, which then runs alone. may_drain: whether a suspect that waits to run alone stops the fetches after this one.';

CREATE FUNCTION _wanted(name text, free integer, after_group text) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN jsonb_build_array(jsonb_build_object(
        'name', name, 'free', free, 'idle', free, 'after_group', coalesce(after_group, ''),
        'visits', greatest(1000, 2 * free), 'freed', '{}'::text[]
    ));
COMMENT ON FUNCTION _wanted(text, integer, text) IS
    'What a fetch of a remote worker wants of a queue, as _fetch_jobs takes it: so many jobs, none of them ahead.';

CREATE FUNCTION _left_alone(memory jsonb) RETURNS uuid[]
    LANGUAGE sql STABLE
    RETURN ARRAY(
        SELECT a.id::uuid
        FROM jsonb_each_text(memory -> 'aside') AS a (id, until)
        WHERE a.until::timestamptz BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute'
    );
COMMENT ON FUNCTION _left_alone(jsonb) IS 'The jobs that a remote worker could not start, and that it leaves alone for now.';

CREATE FUNCTION _fetch_queue(
    worker_id uuid,
    wanted jsonb,
    kinds text[],
    except_ids uuid[],
    suspects integer,
    is_alone boolean,
    reserve interval,
    OUT ids uuid[],
    OUT facts jsonb,
    OUT refused jsonb
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- A job that the database refuses to start fails the whole fetch, which names none. So the next jobs are tried one by one,
-- and those that fail are left alone for a minute.
DECLARE
    problem text;
    failing record;
BEGIN
    SELECT array_agg(f.id) FILTER (WHERE f.id IS NOT NULL), (array_agg(f.facts) FILTER (WHERE f.id IS NULL))[1]
    INTO ids, facts
    FROM _fetch_jobs(
        worker_id, wanted, kinds, except_ids, suspects, is_alone, '{}', '{}', '{}', '{}', reserve
    ) AS f;
EXCEPTION
    WHEN feature_not_supported OR transaction_rollback OR insufficient_resources OR lock_not_available THEN
        RAISE;
    WHEN others THEN
        problem := SQLERRM;
        SELECT array_agg(t.id) AS ids, (array_agg(t.problem))[1] AS problem
        INTO failing
        FROM try_jobs(
            ARRAY(
                SELECT n.id
                FROM _next_jobs(
                    ARRAY[wanted #>> '{0, name}'], ARRAY[(wanted #>> '{0, free}')::integer], kinds, except_ids
                ) AS n
            ),
            worker_id
        ) AS t
        WHERE t.code IS NOT NULL AND NOT t.is_locked;
        IF failing.ids IS NULL THEN
            RAISE;
        END IF;
        RAISE WARNING 'cannot start % jobs, such as %, and leave them alone for a minute: %',
            cardinality(failing.ids), failing.ids[1], coalesce(failing.problem, problem);
        refused := (SELECT jsonb_object_agg(r.id, clock_timestamp() + interval '1 minute') FROM unnest(failing.ids) AS r (id));
        SELECT array_agg(f.id) FILTER (WHERE f.id IS NOT NULL), (array_agg(f.facts) FILTER (WHERE f.id IS NULL))[1]
        INTO ids, facts
        FROM _fetch_jobs(
            worker_id, wanted, kinds, except_ids || failing.ids, suspects, is_alone, '{}', '{}', '{}', '{}', reserve
        ) AS f;
END
$$;
COMMENT ON FUNCTION _fetch_queue(uuid, jsonb, text[], uuid[], integer, boolean, interval) IS
    'Starts the next jobs of one queue, as _fetch_jobs does. ids: the jobs; null: none. refused: jobs that could not be started, each with the time until which to leave it alone; null: none.';

CREATE FUNCTION _start_remote(worker runner, queues text[], count integer, kinds text[], reserve interval) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    plan record := _plan_fetch(worker);
    memory jsonb := worker.remote;
    is_alone boolean;
    name text;
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
            SELECT f.* INTO got
            FROM _fetch_queue(
                worker.id, _wanted(name, count - cardinality(started), memory #>> ARRAY['after', name]), kinds,
                CASE WHEN memory ? 'aside' THEN _left_alone(memory) ELSE '{}' END,
                CASE WHEN is_alone THEN 1 ELSE plan.suspects END, is_alone, reserve
            ) AS f;
            IF got.refused IS NOT NULL THEN
                memory := memory || jsonb_build_object('aside', coalesce(memory -> 'aside', '{}') || got.refused);
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
            memory := memory || jsonb_build_object('aside', (
                SELECT coalesce(jsonb_object_agg(a.id, a.until), '{}')
                FROM jsonb_each_text(memory -> 'aside') AS a (id, until)
                WHERE a.id = ANY (_left_alone(memory)::text[])
            ));
        END IF;
        PERFORM _remember(worker.id, memory);
    END IF;
    RETURN started;
END
$$;
COMMENT ON FUNCTION _start_remote(runner, text[], integer, text[], interval) IS
    'Starts the next jobs of these queues for a remote worker, at most count, those of the first queue first. Returns their ids. Some may be discarded, since another job holds their key.';

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
#variable_conflict use_column
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
        WHERE j.id = ANY (started) AND j.state = 'running'
        ORDER BY array_position(fetch_jobs.queues, j.queue::text), j.priority DESC, j.scheduled_at, j.id;
    END IF;
    wants_wake_ups := fetch_jobs.listens AND cardinality(started) = 0;
    IF entered.idle <> wants_wake_ups THEN
        UPDATE runner AS r
        SET idle = wants_wake_ups
        WHERE r.id = ANY (ARRAY(SELECT w.id FROM runner AS w WHERE w.id = entered.id FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
END
$$;
COMMENT ON FUNCTION fetch_jobs(text[], text, integer, text[], interval, boolean) IS
    'For remote workers: starts the next jobs of these queues, those of the first queue first, and returns them in the order of work. worker: the name of the process. count: how many at most, 1 to 1,000. kinds: null for any. reserve: for how long they are the worker''s, 1 second to 1 day; after that they are taken back, unless extend_jobs extends it. listens: whether the worker listens on channel <schema>.job; an answer without jobs then has it woken by the next insert. run goes with every later call. timeout: how long the job may run, as its registered kind says; null: no limit. Runs with the rights of the schema''s owner. Error 22023 for an argument outside its limits, 0A000 where a queue with a limit, a rate or groups is read under another isolation level than READ COMMITTED.';
REVOKE EXECUTE ON FUNCTION fetch_jobs(text[], text, integer, text[], interval, boolean) FROM PUBLIC;

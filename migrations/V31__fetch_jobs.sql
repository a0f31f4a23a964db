-- Remote workers: programs in any language that fetch jobs by SQL.
--
-- A remote worker is a row of runner, which fetch_jobs makes and keeps alive: its name, queues and kinds. Each job that it
-- fetches is reserved for it, and is taken back by itself after that (_rescue_jobs). The row is alive for twice as long as
-- the longest reservation of its jobs, so that a clock which goes back ends both (_end_future_times).

CREATE FUNCTION _check_reserve(reserve interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN (reserve BETWEEN interval '1 s' AND interval '1 day') IS NOT TRUE THEN
            format('invalid reserve: must be 1 second to 1 day: %s', coalesce(reserve::text, 'null'))
    END);
COMMENT ON FUNCTION _check_reserve IS 'Raises error 22023 if a reservation is shorter than a second or longer than a day.';

CREATE FUNCTION _check_fetch(queues text[], worker text, count integer, kinds text[], reserve interval) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    PERFORM _refuse(CASE
        WHEN coalesce(cardinality(queues), 0) NOT BETWEEN 1 AND 100 THEN
            format('invalid queues: must be 1 to 100 names: %s', coalesce(cardinality(queues), 0))
        WHEN coalesce(octet_length(worker), 0) NOT BETWEEN 1 AND 128 THEN
            format('invalid worker: must be a name of 1 to 128 bytes: %s', coalesce(to_json(worker)::text, 'null'))
        WHEN (count BETWEEN 1 AND 1000) IS NOT TRUE THEN
            format('invalid count: must be 1 to 1000: %s', coalesce(count::text, 'null'))
        WHEN kinds = '{}' OR array_position(kinds, NULL) IS NOT NULL THEN
            'invalid kinds: must be null, for any kind, or an array of names'
    END);
    PERFORM _queue_may_be(q.name) FROM unnest(queues) AS q (name);
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
COMMENT ON FUNCTION _keep_alive IS 'Extends leases of remote workers to two reservations, if less than one and a half are left.';

CREATE FUNCTION _enter_worker(worker text, queues text[], kinds text[], reserve interval) RETURNS runner
    LANGUAGE plpgsql VOLATILE
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
        VALUES (worker_id, worker, all_queues, all_kinds, clock_timestamp() + 2 * reserve, clock_timestamp(), true, true)
        ON CONFLICT (id) DO NOTHING;
        SELECT r.* INTO entered FROM runner AS r WHERE r.id = worker_id;
    ELSIF entered.leased_until < clock_timestamp() + 1.5 * reserve OR entered.heartbeat_at > clock_timestamp() THEN
        PERFORM _keep_alive(ARRAY[worker_id], reserve);
    END IF;
    RETURN entered;
END
$$;
COMMENT ON FUNCTION _enter_worker IS 'The row of a remote worker, whose id is made from name, queues and kinds. Inserts it or extends its lease.';

CREATE FUNCTION _fetch_queue(worker_id uuid, wanted jsonb, kinds text[], reserve interval, OUT ids uuid[], OUT facts jsonb)
    LANGUAGE plpgsql VOLATILE
AS $$
-- A job that cannot be read, or that the database refuses to start, fails the whole fetch. The error names no job.
-- The values are read here, since nothing can be caught any more when the rows are sent.
DECLARE
    found record;
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
                worker_id, wanted, kinds, '{}', suspects => NULL, is_alone => NULL, cursor_queues => '{}', cursor_priorities => '{}',
                cursor_times => '{}', cursor_ids => '{}', reserve => reserve, memory => NULL
            ) AS f;
            RETURN;
        EXCEPTION
            WHEN feature_not_supported OR transaction_rollback OR insufficient_resources OR lock_not_available THEN
                RAISE;
            WHEN others THEN
                ids := NULL;
                facts := NULL;
                SELECT count(*) AS jobs, min(format('%s: %s', s.id, s.problem)) AS example INTO found
                FROM _set_aside(
                    worker_id, wanted, kinds, only_ids => NULL, may_be_size => NULL, step => NULL, failure => SQLERRM, known => NULL
                ) AS s
                WHERE s.problem IS NOT NULL;
                IF found.jobs = 0 AND round = 1 THEN
                    RAISE;
                END IF;
        END;
        EXIT WHEN found.jobs = 0;
        RAISE WARNING 'jobs that cannot be started are set aside: %, such as %', found.jobs, found.example;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _fetch_queue IS 'Starts the next jobs of one queue for a remote worker. Sets aside those that cannot be started.';

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
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 10
AS $$
DECLARE
    entered runner;
    -- Of each queue the group to go on after.
    reached jsonb;
    name text;
    free integer;
    got record;
    started uuid[] := '{}';
    wants_wake_ups boolean;
BEGIN
    PERFORM _check_fetch(fetch_jobs.queues, fetch_jobs.worker, fetch_jobs.count, fetch_jobs.kinds, fetch_jobs.reserve);
    entered := _enter_worker(fetch_jobs.worker, fetch_jobs.queues, fetch_jobs.kinds, fetch_jobs.reserve);
    reached := coalesce(entered.memory -> 'after', '{}');
    FOREACH name IN ARRAY fetch_jobs.queues LOOP
        free := fetch_jobs.count - cardinality(started);
        SELECT f.* INTO got
        FROM _fetch_queue(
            entered.id,
            jsonb_build_array(jsonb_build_object(
                'name', name, 'free', free, 'idle', free, 'after_group', coalesce(reached ->> name, ''),
                'visits', greatest(1000, 2 * free), 'freed', '{}'::text[]
            )),
            fetch_jobs.kinds, fetch_jobs.reserve
        ) AS f;
        started := started || got.ids;
        -- Where something guards the queue.
        IF got.facts #> '{queues, 0, visit}' <> 'null' THEN
            reached := reached || jsonb_build_object(name, got.facts #> '{queues, 0, visit, reached}');
        END IF;
        EXIT WHEN cardinality(started) >= fetch_jobs.count OR (got.facts #>> '{plan, is_partial}')::boolean;
    END LOOP;
    IF reached <> coalesce(entered.memory -> 'after', '{}') THEN
        PERFORM _remember(entered.id, (SELECT r.memory || jsonb_build_object('after', reached) FROM runner AS r WHERE r.id = entered.id));
    END IF;
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
COMMENT ON FUNCTION fetch_jobs IS 'For remote workers: starts the next jobs of these queues and returns them in the order of work. Jobs of the first queue come first. worker: the name of the process. reserve: how long the jobs are its own, unless extend_jobs extends it. listens: if no job comes, the next insert notifies. Pass run to every later call. Runs with the rights of the schema''s owner. See docs/learn/any-language.md.';

-- maintain(): maintenance by workers in any language, where no runner of the library does it.

CREATE FUNCTION _name_id(name text) RETURNS uuid
    LANGUAGE sql STABLE STRICT
    RETURN left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 32)::uuid;
COMMENT ON FUNCTION _name_id IS 'An id made from a name. All callers of a name get the same id.';

CREATE FUNCTION _one_by_one(verb text, ids uuid[], statement text, keep interval[] DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    one uuid;
    changed bigint;
    total bigint := 0;
    refused uuid[] := '{}';
    problem text;
BEGIN
    FOREACH one IN ARRAY ids LOOP
        BEGIN
            EXECUTE statement INTO changed USING one, keep[1], keep[2], keep[3];
            total := total + coalesce(changed, 0);
        EXCEPTION
            WHEN others THEN
                refused := refused || one;
                problem := coalesce(problem, SQLERRM);
        END;
    END LOOP;
    IF cardinality(refused) > 0 THEN
        RAISE WARNING 'cannot % % jobs, such as %: %', verb, cardinality(refused), refused[1], problem;
    END IF;
    RETURN total;
END
$$;
COMMENT ON FUNCTION _one_by_one IS
    'Runs a statement for each of these jobs by itself, after it failed for all at once. So one job that the database refuses to change does not block the others. In the statement $1 is the job, $2 to $4 are the retention. Returns the sum of the results. A warning names the jobs that failed.';

CREATE FUNCTION _promote_due(OUT promoted bigint, OUT next_in bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    SELECT p.promoted, CASE WHEN p.promoted = 1000 THEN 0 ELSE p.next_in END
    INTO promoted, next_in
    FROM _promote_jobs(1000, NULL, NULL) AS p;
EXCEPTION
    WHEN others THEN
        -- In no order, so that each has its turn, however many are refused.
        promoted := _one_by_one(
            'promote',
            ARRAY(SELECT d.id FROM _due_jobs(10000, NULL, '{}') AS d (id) ORDER BY random() LIMIT 500),
            'SELECT p.promoted FROM _promote_jobs(1, NULL, ARRAY[$1]) AS p'
        );
END
$$;
COMMENT ON FUNCTION _promote_due IS
    'Makes up to 1,000 due jobs available. next_in: the milliseconds until there may be more to do.';

CREATE FUNCTION _expire_due(OUT expired bigint, OUT next_in bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    SELECT count(e.id), CASE WHEN count(e.id) = 1000 THEN 0 ELSE min(e.next_in) END
    INTO expired, next_in
    FROM _expire_jobs(1000, NULL) AS e;
EXCEPTION
    WHEN others THEN
        expired := _one_by_one(
            'expire',
            ARRAY(SELECT e.id FROM _expired_jobs(10000, '{}') AS e (id) ORDER BY random() LIMIT 500),
            'SELECT count(e.id) FROM _expire_jobs(1, ARRAY[$1]) AS e'
        );
END
$$;
COMMENT ON FUNCTION _expire_due IS
    'Discards up to 1,000 jobs that have expired. next_in: the milliseconds until there may be more to do.';

CREATE FUNCTION _rescue_lost(OUT rescued bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM _end_future_times();
    SELECT count(r.id) INTO rescued FROM _rescue_jobs(1000, NULL, 3) AS r;
    IF rescued = 0 THEN
        PERFORM _remove_dead_runners();
    END IF;
EXCEPTION
    WHEN others THEN
        rescued := _one_by_one(
            'rescue',
            ARRAY(SELECT l.id FROM _lost_jobs(10000, '{}') AS l (id) ORDER BY random() LIMIT 500),
            'SELECT count(r.id) FROM _rescue_jobs(1, ARRAY[$1], 3) AS r'
        );
END
$$;
COMMENT ON FUNCTION _rescue_lost IS
    'Takes back up to 1,000 jobs whose runner died or whose reservation ran out. The third crash in a row can discard a job.';

CREATE FUNCTION _prune_range(first_id uuid, last_id uuid, keep interval[], OUT pruned bigint, OUT reached uuid)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    SELECT p.pruned, p.reached
    INTO pruned, reached
    FROM _prune_jobs(first_id, last_id, 1000, keep[1], keep[2], keep[3], interval '0') AS p;
EXCEPTION
    WHEN others THEN
        SELECT
            _one_by_one(
                'delete', array_agg(w.id ORDER BY w.id),
                'SELECT p.pruned FROM _prune_jobs($1, $1, 1, $2, $3, $4, interval ''0'') AS p', keep
            ),
            (array_agg(w.id ORDER BY w.id))[1000]
        INTO pruned, reached
        FROM (
            SELECT j.id FROM job AS j WHERE j.id >= first_id AND j.id <= last_id ORDER BY j.id LIMIT 1000
        ) AS w;
END
$$;
COMMENT ON FUNCTION _prune_range IS
    'Deletes jobs past their retention among the first 1,000 of a range. reached: the last id that was read. Null: the range was read to its end.';

CREATE FUNCTION _prune_round(OUT pruned bigint, OUT is_over boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
-- A round goes through all ids but the young ones, in steps. The caller's lease keeps its place, so that another caller
-- goes on with it.
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    keep interval[];
    bounds record;
    step record;
    place uuid;
    visits integer := 0;
BEGIN
    pruned := 0;
    is_over := true;
    SELECT m.reached INTO place
    FROM maintenance AS m
    WHERE m.service = 'pruner'
        AND (m.reached IS NOT NULL OR (m.ran_at BETWEEN began - interval '30 s' AND began) IS NOT TRUE);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- The longest time that a known runner says, so that nothing is deleted that a runner keeps.
    SELECT ARRAY[
        coalesce(max(r.keep_completed), interval '1 day'),
        coalesce(max(r.keep_cancelled), interval '1 day'),
        coalesce(max(r.keep_discarded), interval '7 days')
    ]
    INTO keep
    FROM runner AS r;
    SELECT b.* INTO bounds FROM _prune_bounds(keep[1], keep[2], keep[3]) AS b;
    IF place IS NULL THEN
        PERFORM fold_duplicates();
        PERFORM _prune_groups();
        PERFORM _prune_changes(interval '90 days');
        -- While many jobs are inserted and finished in SQL, one call leaves a rest.
        LOOP
            EXIT WHEN _tend_history(10000) < 10000 OR clock_timestamp() > began + interval '200 ms';
        END LOOP;
        place := '00000000-0000-0000-0000-000000000000';
    END IF;
    LOOP
        SELECT p.* INTO step
        FROM _prune_range(
            place,
            CASE WHEN place < bounds.young_to THEN bounds.young_from ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END,
            keep
        ) AS p;
        visits := visits + 1;
        pruned := pruned + step.pruned;
        -- Behind the young jobs are those of clients whose clocks are ahead.
        place := coalesce(step.reached, CASE WHEN place < bounds.young_to THEN bounds.young_to END);
        EXIT WHEN place IS NULL OR visits >= 10 OR clock_timestamp() > began + interval '200 ms';
    END LOOP;
    is_over := place IS NULL;
    UPDATE maintenance AS m
    SET reached = place, ran_at = CASE WHEN place IS NULL THEN clock_timestamp() ELSE m.ran_at END
    WHERE m.service = 'pruner';
END
$$;
COMMENT ON FUNCTION _prune_round IS
    'Continues a round of pruning, or begins one if the last one ended half a minute ago. Reads up to 10,000 jobs, for at most about 200 ms. The retention of a job is that of its queue. If the queue sets none, it is the longest that a runner reports, or else a day for completed and cancelled jobs and a week for discarded ones. pruned: the number of deleted jobs. is_over: whether the round is complete.';

CREATE FUNCTION _release_round(OUT released bigint, OUT next_in bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    step record;
    checked record;
BEGIN
    released := 0;
    SELECT NULL::uuid AS link_from, NULL::uuid AS parent_from, NULL::uuid AS child_from INTO step;
    LOOP
        SELECT s.* INTO step FROM _release_step(1000, step.link_from, step.parent_from, step.child_from) AS s;
        released := released + step.released + step.cancelled;
        EXIT WHEN (step.linked < 1000 AND step.seen < 1000) OR clock_timestamp() > began + interval '200 ms';
    END LOOP;
    -- While an edge is open, the next call comes after 50 ms, so that children are released soon.
    next_in := CASE
        WHEN step.linked + step.seen > 0 THEN 20
        WHEN _has_open_edge() THEN 50
    END;
    UPDATE maintenance AS m
    SET ran_at = clock_timestamp(), reached = (SELECT c.last_child FROM _check_edges(m.reached, 200) AS c)
    WHERE m.service = 'releaser' AND (m.ran_at BETWEEN began - interval '1 s' AND began) IS NOT TRUE;
END
$$;
COMMENT ON FUNCTION _release_round IS
    'Releases or cancels jobs whose parents have ended. next_in: the milliseconds until there may be more to do.';

CREATE FUNCTION maintain(worker text DEFAULT NULL)
    RETURNS TABLE (promoted bigint, rescued bigint, pruned bigint, released bigint, expired bigint, next_in interval)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    SET lock_timeout = '1s'
    SET jit = off
AS $$
DECLARE
    holder_name CONSTANT text := left(coalesce(maintain.worker, 'maintain()'), 128);
    holder_id CONSTANT uuid := _name_id(holder_name);
    term CONSTANT interval := '3 s';
    wait bigint;
    done record;
BEGIN
    promoted := 0;
    rescued := 0;
    pruned := 0;
    released := 0;
    expired := 0;
    next_in := interval '1 s';
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'maintain() needs READ COMMITTED',
            HINT = 'Set default_transaction_isolation of the role that runs jobs to read committed.';
    END IF;
    -- Most callers find that another does all of it.
    IF (
        SELECT count(*)
        FROM maintenance AS m
        WHERE m.service IN ('promoter', 'expirer', 'rescuer', 'pruner', 'releaser') AND m.holder IS DISTINCT FROM holder_id
            AND m.leased_until > clock_timestamp() AND (m.holder IS NULL OR m.taken_at <= clock_timestamp())
    ) = 5 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF (SELECT s.is_held FROM _take_service('promoter', holder_id, holder_name, term) AS s) THEN
        SELECT d.* INTO done FROM _promote_due() AS d;
        promoted := done.promoted;
        wait := done.next_in;
    END IF;
    IF (SELECT s.is_held FROM _take_service('expirer', holder_id, holder_name, term) AS s) THEN
        SELECT d.* INTO done FROM _expire_due() AS d;
        expired := done.expired;
        wait := least(wait, done.next_in);
    END IF;
    IF (SELECT s.is_held FROM _take_service('rescuer', holder_id, holder_name, term) AS s) THEN
        rescued := (SELECT d.rescued FROM _rescue_lost() AS d);
    END IF;
    IF (SELECT s.is_held FROM _take_service('releaser', holder_id, holder_name, term) AS s) THEN
        SELECT d.* INTO done FROM _release_round() AS d;
        released := done.released;
        wait := least(wait, done.next_in);
    END IF;
    IF (SELECT s.is_held FROM _take_service('pruner', holder_id, holder_name, term) AS s) THEN
        SELECT d.* INTO done FROM _prune_round() AS d;
        pruned := done.pruned;
        wait := CASE WHEN done.is_over THEN wait ELSE 0 END;
    END IF;
    next_in := make_interval(secs => greatest(20, least(coalesce(wait, 1000), 1000)) / 1000.0);
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION maintain IS
    'For remote workers: promotes due jobs, discards expired ones, rescues lost ones, releases those whose parents have ended, and prunes old ones. Skips a service whose lease another has. Call it in a transaction of its own, and again after next_in, 20 ms to 1 s. worker: who gets the leases. Runs with the rights of the schema''s owner. Error 0A000: the isolation level is not READ COMMITTED.';
REVOKE EXECUTE ON FUNCTION maintain FROM PUBLIC;

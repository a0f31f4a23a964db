-- Maintenance: each service does one call of _run_service. Runners call it in a loop. maintain() calls it for workers in any
-- language, where no runner of the library does it.
--
-- A batch is one statement. A row that the database refuses to change (a trigger's error, a foreign key of the application's,
-- a damaged page) fails the statement for the whole batch, in every process, each time. Then the statement runs for halves of
-- the batch, down to single jobs. A job that is refused alone is set aside for a while. After 16 of them in a row, a part of
-- 64 or less is left over for a later run instead of being split: so a batch of n jobs of which none can be changed costs
-- about n / 16 statements, not 2n. Each part is a subtransaction, so what the database accepted counts all the same.
--
-- A statement that takes too long does nothing, and would take as long again. So the next batch is a tenth as large, and
-- batches grow back while they are quick. A job that takes too long alone is set aside.

CREATE FUNCTION _name_id(name text) RETURNS uuid
    LANGUAGE sql STABLE STRICT
    RETURN left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 32)::uuid;
COMMENT ON FUNCTION _name_id IS 'An id made from a name. All callers of a name get the same id.';

CREATE FUNCTION _change_batch(
    service text,
    settings jsonb,
    most bigint,
    only_ids uuid[],
    OUT changed bigint,
    OUT next_in bigint,
    OUT jobs jsonb,
    OUT reached timestamptz
)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    CASE service COLLATE "C"
        WHEN 'promoter' THEN
            SELECT p.promoted, p.next_in, p.reached
            INTO changed, next_in, reached
            FROM _promote_jobs(most, (settings ->> 'since')::timestamptz, only_ids) AS p;
        WHEN 'expirer' THEN
            SELECT count(e.id), min(e.next_in), jsonb_agg(to_jsonb(e) || '{"state": "discarded"}') FILTER (WHERE e.id IS NOT NULL)
            INTO changed, next_in, jobs
            FROM _expire_jobs(most, only_ids) AS e;
        WHEN 'rescuer' THEN
            SELECT count(r.id), min(r.next_in), jsonb_agg(to_jsonb(r)) FILTER (WHERE r.id IS NOT NULL)
            INTO changed, next_in, jobs
            FROM _rescue_jobs(most, only_ids, coalesce((settings ->> 'max_crashes')::integer, 3)) AS r;
            IF changed = 0 AND coalesce(cardinality(only_ids), 0) = 0 THEN
                PERFORM _remove_dead_runners();
            END IF;
    END CASE;
END
$$;
COMMENT ON FUNCTION _change_batch IS
    'The statement of a maintenance service for up to most jobs. only_ids: only these jobs. Null: all. Returns the number of changed jobs, the milliseconds until there may be more to do (null: unknown), the changed jobs where their events tell of them, and how far the promoter looked.';

CREATE FUNCTION _batch_ids(service text, settings jsonb, most bigint, except_ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- From either end, so that a block of refused jobs does not hide the same neighbours each time.
    direction CONSTANT integer := CASE WHEN random() < 0.5 THEN 1 ELSE -1 END;
    ids CONSTANT uuid[] := CASE service COLLATE "C"
        WHEN 'promoter' THEN ARRAY(SELECT _due_jobs(most, (settings ->> 'since')::timestamptz, except_ids))
        WHEN 'expirer' THEN ARRAY(SELECT _expired_jobs(most, except_ids))
        WHEN 'rescuer' THEN ARRAY(SELECT _lost_jobs(most, except_ids))
    END;
BEGIN
    RETURN ARRAY(SELECT b.id FROM unnest(ids) WITH ORDINALITY AS b (id, place) ORDER BY b.place * direction);
END
$$;
COMMENT ON FUNCTION _batch_ids IS
    'Up to most jobs that _change_batch would change, without those in except_ids, in the order of the search or backwards.';

CREATE FUNCTION _run_batch(
    service text,
    settings jsonb,
    INOUT state jsonb,
    OUT changed bigint,
    OUT next_in bigint,
    OUT rest bigint,
    OUT jobs jsonb,
    OUT reached timestamptz,
    OUT warnings jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    largest CONSTANT bigint := 1000;
    began CONSTANT timestamptz := clock_timestamp();
    most bigint := coalesce((state ->> 'most')::bigint, largest);
    aside jsonb;
    refused jsonb := '{}';
    refused_in_row integer := 0;
    is_refused boolean := false;
    is_slow boolean := false;
    has_rest boolean := false;
    -- The jobs of the batch, and the parts that are still to be tried, the next one last. Null: all at once.
    found uuid[];
    firsts integer[];
    lasts integer[];
    first integer;
    last integer;
    size integer;
    done record;
BEGIN
    changed := 0;
    jobs := '[]';
    SELECT coalesce(jsonb_object_agg(a.id, a.until), '{}')
    INTO aside
    FROM jsonb_each_text(coalesce(state -> 'aside', '{}')) AS a (id, until)
    WHERE a.until::timestamptz BETWEEN began AND began + interval '11 min';
    LOOP
        IF found IS NULL AND (is_refused OR most = 1 OR aside <> '{}') THEN
            found := _batch_ids(service, settings, most, ARRAY(SELECT a.id::uuid FROM jsonb_object_keys(aside) AS a (id)));
            firsts := ARRAY[1];
            lasts := ARRAY[cardinality(found)];
        END IF;
        IF found IS NOT NULL THEN
            EXIT WHEN cardinality(firsts) = 0;
            first := firsts[cardinality(firsts)];
            last := lasts[cardinality(lasts)];
            firsts := trim_array(firsts, 1);
            lasts := trim_array(lasts, 1);
            -- The call must end in time.
            has_rest := has_rest OR clock_timestamp() > began + interval '2 s';
            EXIT WHEN clock_timestamp() > began + interval '2 s';
        END IF;
        size := coalesce(last - first + 1, most);
        BEGIN
            SELECT c.* INTO done FROM _change_batch(service, settings, most, found[first:last]) AS c;
            -- A deferred constraint of the application's would fail at the commit, with all that was done.
            SET CONSTRAINTS ALL IMMEDIATE;
            changed := changed + done.changed;
            next_in := least(next_in, done.next_in);
            jobs := jobs || coalesce(done.jobs, '[]');
            IF found IS NULL THEN
                reached := done.reached;
                EXIT;
            END IF;
            refused_in_row := CASE WHEN done.changed > 0 THEN 0 ELSE refused_in_row END;
        EXCEPTION
            -- The name others leaves out a statement timeout.
            WHEN query_canceled OR others THEN
                -- Not refused for a job: a lost connection, a missing resource, a deadlock, a server that stops or takes no
                -- writes.
                IF size = 0 OR (
                    SQLSTATE <> '57014' AND left(SQLSTATE, 2) IN ('08', '25', '28', '3D', '40', '53', '57', 'F0')
                ) THEN
                    RAISE;
                END IF;
                is_slow := SQLSTATE IN ('55P03', '57014') AND size > 1;
                has_rest := is_slow OR has_rest;
                EXIT WHEN is_slow;
                -- Neither is a statement that fails for no job at all: a privilege is missing, or the session is at fault.
                IF NOT is_refused THEN
                    PERFORM _change_batch(service, settings, most, '{}');
                    is_refused := true;
                END IF;
                IF size = 1 AND found IS NOT NULL THEN
                    refused_in_row := refused_in_row + 1;
                    refused := refused || jsonb_build_object(found[first], SQLERRM);
                    aside := aside || jsonb_build_object(
                        found[first],
                        began + CASE SQLSTATE WHEN '55P03' THEN interval '10 s' ELSE interval '10 min' END
                    );
                ELSIF refused_in_row >= 16 AND size <= 64 THEN
                    has_rest := true;
                ELSIF found IS NOT NULL THEN
                    firsts := firsts || ARRAY[first + (size + 1) / 2, first];
                    lasts := lasts || ARRAY[last, first + (size + 1) / 2 - 1];
                END IF;
        END;
    END LOOP;
    rest := CASE
        WHEN is_slow THEN 0
        WHEN has_rest OR coalesce(cardinality(found), changed) >= most THEN CASE WHEN changed > 0 THEN 0 ELSE 1000 END
    END;
    most := CASE
        WHEN is_slow THEN greatest(most / 10, 1)
        WHEN changed * 2 >= most AND clock_timestamp() < began + interval '1 s' THEN least(most * 2, largest)
        ELSE most
    END;
    -- A caller that forgets tries refused jobs each time, unless others may wait behind them.
    IF rest IS NULL AND (settings ->> 'forgets')::boolean THEN
        aside := '{}';
    END IF;
    state := jsonb_strip_nulls(
        state || jsonb_build_object('most', nullif(most, largest), 'aside', nullif(aside, '{}'))
    );
    warnings := (
        SELECT coalesce(jsonb_agg(format(
            'the database refuses to %s %s, set aside for a while: %s%s: %s',
            left(service, -1), _counted(cardinality(p.ids), 'job', 'jobs'), array_to_string(p.ids[1:20], ', '),
            CASE WHEN cardinality(p.ids) > 20 THEN ', …' END, p.problem
        )), '[]')
        FROM (
            SELECT r.value AS problem, array_agg(r.key) AS ids FROM jsonb_each_text(refused) AS r GROUP BY r.value
        ) AS p
    );
END
$$;
COMMENT ON FUNCTION _run_batch IS
    'Runs the statement of a maintenance service for a batch of jobs, and for parts of the batch where the database refuses it. state: the batch size and the jobs that are set aside. rest: the milliseconds until the next batch. Null: all was done. reached: null unless the batch was done at once. jobs: the changed jobs. warnings: sentences that name the refused jobs.';

CREATE FUNCTION _run_service(
    service text,
    settings jsonb,
    INOUT state jsonb,
    OUT changed bigint,
    OUT next_in bigint,
    OUT jobs jsonb,
    OUT warnings jsonb
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT bigint := coalesce((settings ->> 'interval')::bigint, 1000);
    shortened bigint := 0;
    batch record;
    took interval;
BEGIN
    state := coalesce(state, '{}');
    -- While a session holds an old snapshot, the index keeps an entry for each job that was promoted since, and a scan from
    -- the start reads them all. So where scans take long, most go on from where the last one ended. A tenth of the time
    -- goes to scans from the start: they find jobs that were locked before, or committed late.
    IF (state ->> 'from_start_at')::timestamptz BETWEEN began AND began + interval '2 min' THEN
        settings := settings || jsonb_build_object('since', state -> 'since');
    END IF;
    IF service = 'rescuer' COLLATE "C" THEN
        shortened := _end_future_times();
    END IF;
    SELECT b.* INTO batch FROM _run_batch(service, settings, state) AS b;
    changed := batch.changed;
    jobs := batch.jobs;
    warnings := batch.warnings;
    state := batch.state;
    IF shortened > 0 THEN
        warnings := warnings || to_jsonb('the database''s clock went back: leases, rates and holds are shortened'::text);
    END IF;
    took := clock_timestamp() - began;
    IF settings ->> 'since' IS NOT NULL OR took > interval '2 ms' THEN
        state := jsonb_strip_nulls(state || jsonb_build_object(
            'since', coalesce(to_jsonb(batch.reached), settings -> 'since'),
            'from_start_at',
            CASE
                WHEN settings ->> 'since' IS NULL THEN to_jsonb(clock_timestamp() + 10 * took)
                ELSE state -> 'from_start_at'
            END
        ));
    END IF;
    next_in := coalesce(
        batch.rest,
        -- At least 20 ms: jobs that are due within it are done together. Never longer than the interval, however short it is.
        CASE WHEN batch.next_in IS NOT NULL THEN least(greatest(batch.next_in, 20), longest) END,
        -- While no job can expire, an insert of such a job can wait.
        CASE service COLLATE "C" WHEN 'expirer' THEN 5 ELSE 1 END * longest
    );
END
$$;
COMMENT ON FUNCTION _run_service IS
    'Runs a maintenance service once. settings: interval, the longest rest in milliseconds, and max_crashes of the rescuer. state: what the last run returned. Null: the first run. changed: the number of changed jobs. next_in: the milliseconds until the next run. jobs: the jobs whose events a runner sends. warnings: sentences for the log. The caller has the lease of the service.';

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
    counts jsonb := '{}';
    wait bigint;
    one text;
    done record;
    warning text;
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
    FOREACH one IN ARRAY ARRAY['promoter', 'expirer', 'rescuer'] LOOP
        CONTINUE WHEN NOT (SELECT s.is_held FROM _take_service(one, holder_id, holder_name, term) AS s);
        SELECT r.*
        INTO done
        FROM maintenance AS m
        CROSS JOIN LATERAL _run_service(one, '{"forgets": true}', m.state) AS r
        WHERE m.service = one COLLATE "C";
        UPDATE maintenance AS m
        SET state = done.state
        WHERE m.service = one COLLATE "C" AND m.state IS DISTINCT FROM done.state;
        counts := counts || jsonb_build_object(one, done.changed);
        wait := least(wait, done.next_in);
        FOR warning IN SELECT w.sentence FROM jsonb_array_elements_text(done.warnings) AS w (sentence) LOOP
            RAISE WARNING '%', warning;
        END LOOP;
    END LOOP;
    promoted := coalesce((counts ->> 'promoter')::bigint, 0);
    expired := coalesce((counts ->> 'expirer')::bigint, 0);
    rescued := coalesce((counts ->> 'rescuer')::bigint, 0);
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

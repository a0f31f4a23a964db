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

CREATE FUNCTION _change_batch(service text, locked uuid[], settings jsonb, OUT ids uuid[], OUT jobs jsonb)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    CASE service COLLATE "C"
        WHEN 'promoter' THEN
            WITH promoted AS (
                UPDATE job AS j
                SET state = 'available',
                    unique_yielded = j.unique_yielded OR _enters_claim(j.unique_states, j.state, 'available')
                WHERE j.id = ANY (locked)
                RETURNING j.id
            )
            SELECT array_agg(p.id) INTO ids FROM promoted AS p;
            PERFORM _settle(ids);
        WHEN 'expirer' THEN
            ids := _discard_expired(locked);
            jobs := (
                SELECT jsonb_agg(jsonb_build_object(
                    'id', j.id, 'kind', j.kind, 'queue', j.queue, 'attempt', j.attempt, 'state', j.state,
                    'error', j.errors -> -1 ->> 'error'
                ))
                FROM job AS j
                WHERE j.id = ANY (ids)
            );
        WHEN 'rescuer' THEN
            SELECT array_agg(r.id), jsonb_agg(to_jsonb(r))
            INTO ids, jobs
            FROM _rescue_jobs(locked, coalesce((settings ->> 'max_crashes')::integer, 3)) AS r;
        WHEN 'pruner' THEN
            WITH deleted AS (DELETE FROM job AS j WHERE j.id = ANY (locked) RETURNING j.id)
            SELECT array_agg(d.id) INTO ids FROM deleted AS d;
            IF EXISTS (SELECT FROM job_parent) THEN
                DELETE FROM job_parent AS e WHERE e.child = ANY (ids);
            END IF;
    END CASE;
    ids := coalesce(ids, '{}');
    jobs := coalesce(jobs, '[]');
END
$$;
COMMENT ON FUNCTION _change_batch IS 'What a maintenance service does with locked jobs. ids: the changed ones. jobs: what their events tell.';

CREATE FUNCTION _run_batch(
    service text, settings jsonb, only_ids uuid[], INOUT state jsonb,
    OUT ids uuid[], OUT jobs jsonb, OUT is_full boolean, OUT has_rest boolean, OUT is_slow boolean, OUT is_refused boolean,
    OUT warnings jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    largest CONSTANT bigint := 1000;
    began CONSTANT timestamptz := clock_timestamp();
    most bigint := coalesce((state ->> 'most')::bigint, largest);
    aside jsonb;
    skip uuid[];
    refused jsonb := '{}';
    refused_in_row integer := 0;
    part uuid[] := only_ids;
    locked uuid[];
    done record;
    -- The jobs of the batch, and the parts that are still to be tried, the next one last.
    found uuid[];
    firsts integer[] := '{}';
    lasts integer[] := '{}';
    first integer := 1;
    last integer;
    size integer;
BEGIN
    ids := '{}';
    jobs := '[]';
    has_rest := false;
    is_slow := false;
    SELECT coalesce(jsonb_object_agg(a.id, a.until), '{}'), coalesce(array_agg(a.id::uuid), '{}')
    INTO aside, skip
    FROM jsonb_each_text(coalesce(state -> 'aside', '{}')) AS a (id, until)
    WHERE a.until::timestamptz BETWEEN began AND began + interval '11 min';
    LOOP
        BEGIN
            locked := _lock_due_jobs(service, most, (settings ->> 'since')::timestamptz, part, skip);
            found := coalesce(found, locked);
            SELECT c.* INTO done FROM _change_batch(service, locked, settings) AS c;
            -- A deferred constraint of the application's would fail at the commit, with all that was done.
            SET CONSTRAINTS ALL IMMEDIATE;
            ids := ids || done.ids;
            jobs := jobs || done.jobs;
            refused_in_row := CASE WHEN done.ids = '{}' THEN refused_in_row ELSE 0 END;
        EXCEPTION
            -- The name others leaves out a statement timeout.
            WHEN query_canceled OR others THEN
                size := coalesce(last, cardinality(found)) - first + 1;
                -- Not refused for a job: a lost connection, a missing resource, a deadlock, a server that stops or takes no
                -- writes.
                IF coalesce(size, 0) = 0 OR (
                    SQLSTATE <> '57014' AND left(SQLSTATE, 2) IN ('08', '25', '28', '3D', '40', '53', '57', 'F0')
                ) THEN
                    RAISE;
                END IF;
                is_slow := SQLSTATE IN ('55P03', '57014') AND size > 1;
                IF last IS NULL AND NOT is_slow THEN
                    -- Neither is a change that fails for no job at all: a privilege is missing, or the session is at fault.
                    PERFORM _change_batch(service, '{}', settings);
                    -- From either end, so that a block of refused jobs does not hide the same neighbours each time.
                    IF random() < 0.5 THEN
                        found := ARRAY(SELECT f.id FROM unnest(found) WITH ORDINALITY AS f (id, place) ORDER BY f.place DESC);
                    END IF;
                    last := size;
                END IF;
                IF size = 1 THEN
                    refused_in_row := refused_in_row + 1;
                    refused := refused || jsonb_build_object(found[first], SQLERRM);
                    aside := aside || jsonb_build_object(
                        found[first],
                        began + CASE SQLSTATE WHEN '55P03' THEN interval '10 s' ELSE interval '10 min' END
                    );
                ELSIF is_slow OR (refused_in_row >= 16 AND size <= 64) THEN
                    has_rest := true;
                ELSE
                    firsts := firsts || ARRAY[first + (size + 1) / 2, first];
                    lasts := lasts || ARRAY[last, first + (size + 1) / 2 - 1];
                END IF;
        END;
        EXIT WHEN is_slow OR cardinality(firsts) = 0;
        -- The call must end in time.
        IF clock_timestamp() > began + interval '2 s' THEN
            has_rest := true;
            EXIT;
        END IF;
        first := firsts[cardinality(firsts)];
        last := lasts[cardinality(lasts)];
        part := found[first:last];
        firsts := trim_array(firsts, 1);
        lasts := trim_array(lasts, 1);
    END LOOP;
    is_full := cardinality(found) >= most;
    is_refused := refused <> '{}' OR (has_rest AND NOT is_slow) OR coalesce(skip && only_ids, false);
    most := CASE
        WHEN is_slow THEN greatest(size / 10, 1)
        WHEN cardinality(ids) * 2 >= most AND clock_timestamp() < began + interval '1 s' THEN least(most * 2, largest)
        ELSE most
    END;
    -- A caller that forgets tries refused jobs each time, unless others may wait behind them.
    IF (settings ->> 'forgets')::boolean AND NOT (is_full OR has_rest) THEN
        aside := '{}';
    END IF;
    state := jsonb_strip_nulls(state || jsonb_build_object('most', nullif(most, largest), 'aside', nullif(aside, '{}')));
    warnings := (
        SELECT coalesce(jsonb_agg(format(
            'the database refuses to %s %s, set aside for a while: %s%s: %s',
            left(service, -1), _counted(cardinality(p.ids), 'job', 'jobs'), array_to_string(p.ids[1:20], ', '),
            CASE WHEN cardinality(p.ids) > 20 THEN ', …' END, p.problem
        )), '[]')
        FROM (SELECT r.value AS problem, array_agg(r.key) AS ids FROM jsonb_each_text(refused) AS r GROUP BY r.value) AS p
    );
END
$$;
COMMENT ON FUNCTION _run_batch IS 'Does what a maintenance service does with a batch of jobs, and with parts of the batch where the database refuses it. only_ids: as of _lock_due_jobs. state: the batch size and the jobs that are set aside. ids, jobs: as of _change_batch. has_rest: jobs of the batch were not tried. is_slow: the next batch is smaller. is_refused: jobs of the batch are set aside. warnings: sentences that name them.';

CREATE FUNCTION _run_releaser(settings jsonb, INOUT state jsonb, OUT changed bigint, OUT next_in bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
-- A busy releaser looks every 20 ms. One that can be notified falls asleep after half a second without an end: it first tells
-- the database that it sleeps, and then looks once more, so no end is missed. It looks every 5 s, and every second while a job
-- waits for parents: a transaction that ended a parent while the releaser was busy, and committed while it slept, sends no
-- notification. A quiet one that cannot be notified looks every 50 ms while a job waits for parents.
DECLARE
    largest CONSTANT integer := 1000;
    began CONSTANT timestamptz := clock_timestamp();
    listener CONSTANT uuid := settings ->> 'listener';
    is_quiet CONSTANT boolean :=
        ((state ->> 'busy_until')::timestamptz BETWEEN began AND began + interval '1 s') IS NOT TRUE;
    may_sleep CONSTANT boolean := listener IS NOT NULL AND is_quiet;
    check_at timestamptz := (state ->> 'check_at')::timestamptz;
    most integer := coalesce((state ->> 'most')::integer, largest);
    has_told boolean;
    has_more boolean;
    is_awaited boolean;
    step record;
    checked record;
BEGIN
    UPDATE maintenance AS m
    SET sleeps = may_sleep
    WHERE m.service = 'releaser' AND m.holder = listener AND m.sleeps <> may_sleep;
    has_told := FOUND;
    IF state ? 'failed' THEN
        state := state - '{link_from,parent_from,child_from}'::text[];
    END IF;
    BEGIN
        SELECT greatest(s.linked, s.seen) AS seen, s.released + s.cancelled AS changed, s.link_from, s.parent_from, s.child_from
        INTO step
        FROM _release_step(
            most, (state ->> 'link_from')::uuid, (state ->> 'parent_from')::uuid, (state ->> 'child_from')::uuid
        ) AS s;
    EXCEPTION
        WHEN query_canceled THEN
            IF most = 1 THEN
                RAISE;
            END IF;
            changed := 0;
            next_in := 0;
            state := jsonb_build_object('most', greatest(most / 10, 1));
            RETURN;
    END;
    changed := step.changed;
    has_more := step.seen >= most OR coalesce(step.link_from, step.parent_from, step.child_from) IS NOT NULL;
    IF step.seen * 2 >= most AND clock_timestamp() < began + interval '1 s' THEN
        most := least(most * 2, largest);
    END IF;
    state := state || jsonb_build_object(
        'link_from', step.link_from, 'parent_from', step.parent_from, 'child_from', step.child_from, 'most', nullif(most, largest)
    );
    IF step.seen > 0 THEN
        state := state || jsonb_build_object('busy_until', clock_timestamp() + interval '500 ms');
    END IF;
    IF has_told OR has_more THEN
        next_in := 0;
    ELSE
        IF (check_at BETWEEN began AND began + interval '10 min') IS NOT TRUE THEN
            -- A slow walk through all edges, which takes a fiftieth of the time. A runner that deletes jobs as they complete
            -- leaves their edges behind, and these are deleted as fast as they come.
            SELECT c.* INTO checked FROM _check_edges((state ->> 'checked')::uuid, 500) AS c;
            check_at := clock_timestamp() + greatest(
                CASE WHEN checked.mended = 0 THEN interval '10 s' ELSE interval '0' END, 50 * (clock_timestamp() - began)
            );
            state := state || jsonb_build_object('check_at', check_at, 'checked', checked.last_child);
        END IF;
        -- The first entry of the index. The planner may read the table for EXISTS, and the closed edges with it.
        is_awaited := (SELECT e.child FROM job_parent AS e WHERE _is_open_edge(e.outcome) ORDER BY e.child LIMIT 1) IS NOT NULL;
        next_in := least(
            CASE
                WHEN may_sleep THEN CASE WHEN is_awaited THEN 1000 ELSE 5000 END
                WHEN is_quiet AND listener IS NULL THEN CASE WHEN is_awaited THEN 50 ELSE 1000 END
                ELSE 20
            END,
            CASE WHEN listener IS NULL THEN (settings ->> 'interval')::bigint END,
            greatest((extract(epoch FROM check_at - clock_timestamp()) * 1000)::bigint, 0)
        );
    END IF;
    state := jsonb_strip_nulls(state);
END
$$;
COMMENT ON FUNCTION _run_releaser IS 'Runs the releaser once: a step of _release_step, and at times of _check_edges. settings: listener, the holder of the lease that waits for a notification (null: it cannot be notified), and interval, the longest rest of a holder that cannot be notified. For the other arguments see _run_service.';

CREATE FUNCTION _run_service(
    service text, settings jsonb DEFAULT '{}', INOUT state jsonb DEFAULT '{}',
    OUT changed bigint, OUT next_in bigint, OUT jobs jsonb, OUT warnings jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT bigint := coalesce((settings ->> 'interval')::bigint, 1000);
    batch record;
    due_in bigint;
    took interval;
BEGIN
    state := coalesce(state, '{}');
    jobs := '[]';
    warnings := '[]';
    IF service = 'releaser' COLLATE "C" THEN
        SELECT r.state - 'failed', r.changed, r.next_in INTO state, changed, next_in FROM _run_releaser(settings, state) AS r;
        RETURN;
    ELSIF service = 'pruner' COLLATE "C" THEN
        SELECT p.state - 'failed', p.changed, p.next_in, p.warnings
        INTO state, changed, next_in, warnings
        FROM _run_pruner(settings, state) AS p;
        RETURN;
    ELSIF service = 'rescuer' COLLATE "C" AND _end_future_times() > 0 THEN
        warnings := '["the database''s clock went back: leases, rates and holds are shortened"]';
    END IF;
    -- While a session holds an old snapshot, the index keeps an entry for each job that was promoted since, and a scan from
    -- the start reads them all. So where scans take long, most go on from where the last one ended. A tenth of the time
    -- goes to scans from the start: they find jobs that were locked before, or committed late.
    IF (state ->> 'from_start_at')::timestamptz BETWEEN began AND began + interval '2 min' THEN
        settings := settings || jsonb_build_object('since', state -> 'since');
    END IF;
    SELECT b.* INTO batch FROM _run_batch(service, settings, only_ids => NULL, state => state - 'failed') AS b;
    changed := cardinality(batch.ids);
    jobs := batch.jobs;
    warnings := warnings || batch.warnings;
    state := batch.state;
    IF service = 'rescuer' COLLATE "C" AND changed = 0 THEN
        DELETE FROM runner AS r
        WHERE r.leased_until < clock_timestamp() - interval '1 day'
            AND NOT EXISTS (SELECT FROM job AS j WHERE j.worker = r.id AND j.state = 'running');
    END IF;
    took := clock_timestamp() - began;
    IF service = 'promoter' COLLATE "C" AND (settings ? 'since' OR took > interval '10 ms') THEN
        state := jsonb_strip_nulls(state || jsonb_build_object(
            'since',
            CASE
                WHEN batch.has_rest OR batch.is_refused THEN settings -> 'since'
                WHEN batch.is_full THEN (SELECT to_jsonb(max(j.scheduled_at)) FROM job AS j WHERE j.id = ANY (batch.ids))
                ELSE to_jsonb(statement_timestamp())
            END,
            'from_start_at', CASE WHEN NOT settings ? 'since' THEN to_jsonb(clock_timestamp() + 10 * took) ELSE state -> 'from_start_at' END
        ));
    END IF;
    due_in := _next_due_in(service);
    next_in := CASE
        WHEN batch.is_slow THEN 0
        WHEN batch.is_full OR batch.has_rest THEN CASE WHEN changed > 0 THEN 0 ELSE 1000 END
        -- At least 20 ms: jobs that are due within it are done together. Never longer than the interval, however short it is.
        WHEN due_in IS NOT NULL THEN least(greatest(due_in, 20), longest)
        -- While no job can expire, an insert of such a job can wait.
        WHEN service = 'expirer' COLLATE "C" THEN 5 * longest
        ELSE longest
    END;
END
$$;
COMMENT ON FUNCTION _run_service IS 'Runs a maintenance service once. settings: interval, the longest rest in milliseconds, and those of the service. state: what the last run returned, with the member failed if it failed. next_in: the milliseconds until the next run. jobs: the jobs whose events a runner sends. warnings: sentences for the log. The caller has the lease of the service.';

CREATE FUNCTION maintain(worker text DEFAULT NULL)
    RETURNS TABLE (promoted bigint, rescued bigint, pruned bigint, released bigint, expired bigint, next_in interval)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET lock_timeout = '1s'
AS $$
DECLARE
    holder_name CONSTANT text := left(coalesce(maintain.worker, 'maintain()'), 128);
    holder_id CONSTANT uuid := _name_id(holder_name);
    services text[] := '{promoter,expirer,rescuer,releaser,pruner}';
    settings jsonb;
    one text;
    done record;
    warning text;
    changed jsonb := '{"promoter": 0, "expirer": 0, "rescuer": 0, "releaser": 0, "pruner": 0}';
    wait bigint := 1000;
BEGIN
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
        WHERE m.service = ANY (services) AND m.holder IS DISTINCT FROM holder_id
            AND m.leased_until > clock_timestamp() AND (m.holder IS NULL OR m.taken_at <= clock_timestamp())
    ) = cardinality(services) THEN
        services := '{}';
    END IF;
    -- The longest retention that a known runner says, so that nothing is deleted that a runner keeps.
    SELECT jsonb_build_object(
        'forgets', true,
        'keep', jsonb_build_object(
            'completed', extract(epoch FROM coalesce(max(r.keep_completed), interval '1 day')),
            'cancelled', extract(epoch FROM coalesce(max(r.keep_cancelled), interval '1 day')),
            'discarded', extract(epoch FROM coalesce(max(r.keep_discarded), interval '7 days'))
        )
    )
    INTO settings
    FROM runner AS r;
    FOREACH one IN ARRAY services LOOP
        CONTINUE WHEN NOT (SELECT t.is_held FROM _take_service(one, holder_id, holder_name, interval '3 s') AS t);
        SELECT r.*
        INTO done
        FROM maintenance AS m
        CROSS JOIN LATERAL _run_service(m.service, settings, m.state) AS r
        WHERE m.service = one COLLATE "C"
            -- The pruner rests for half a minute between two rounds.
            AND (one <> 'pruner' OR (m.ran_at BETWEEN clock_timestamp() - interval '30 s' AND clock_timestamp()) IS NOT TRUE);
        CONTINUE WHEN NOT FOUND;
        UPDATE maintenance AS m
        SET state = done.state, ran_at = CASE WHEN one = 'pruner' AND done.next_in > 0 THEN clock_timestamp() ELSE m.ran_at END
        WHERE m.service = one COLLATE "C" AND (m.state IS DISTINCT FROM done.state OR one = 'pruner');
        changed := changed || jsonb_build_object(one, done.changed);
        wait := least(wait, done.next_in);
        FOR warning IN SELECT w.sentence FROM jsonb_array_elements_text(done.warnings) AS w (sentence) LOOP
            RAISE WARNING '%', warning;
        END LOOP;
    END LOOP;
    RETURN QUERY
    SELECT
        c.promoter, c.rescuer, c.pruner, c.releaser, c.expirer, make_interval(secs => greatest(20, wait) / 1000.0)
    FROM jsonb_to_record(changed) AS c (promoter bigint, rescuer bigint, pruner bigint, releaser bigint, expirer bigint);
END
$$;
COMMENT ON FUNCTION maintain IS 'For remote workers: promotes due jobs, discards expired ones, rescues lost ones, releases those whose parents have ended, and prunes old ones. Skips a service whose lease another has. Call it in a transaction of its own, and again after next_in, 20 ms to 1 s. worker: who gets the leases. Runs with the rights of the schema''s owner. Error 0A000: the isolation level is not READ COMMITTED.';

-- Running jobs of remote workers: extended, ended, given back.

CREATE FUNCTION _check_runs(ids uuid[], runs integer[], lengths integer[]) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    length integer;
BEGIN
    IF ids IS NULL OR runs IS NULL OR cardinality(ids) <> cardinality(runs) THEN
        RETURN _refuse(format(
            'invalid ids and runs: must be two arrays of one length: %s and %s',
            coalesce(cardinality(ids)::text, 'null'), coalesce(cardinality(runs)::text, 'null')
        ));
    ELSIF array_position(ids, NULL) IS NOT NULL OR array_position(runs, NULL) IS NOT NULL THEN
        RETURN _refuse('invalid ids and runs: must not hold null');
    END IF;
    FOREACH length IN ARRAY lengths LOOP
        IF cardinality(ids) <> length THEN
            RETURN _refuse(format(
                'invalid arguments: each array must be null or as long as ids, which has %s: %s', cardinality(ids), length
            ));
        END IF;
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION _check_runs IS 'Raises error 22023 unless ids and runs, without nulls, and all given arrays have one length.';

CREATE FUNCTION _read_values(member text, texts text[], INOUT not_stored text[], OUT read jsonb[])
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    given text;
    place integer := 0;
BEGIN
    FOREACH given IN ARRAY coalesce(texts, '{}') LOOP
        place := place + 1;
        read[place] := NULL;
        CONTINUE WHEN given IS NULL;
        BEGIN
            read[place] := given::jsonb;
            IF member = 'error_details' THEN
                PERFORM _check_error_details(read[place]);
            END IF;
        EXCEPTION
            WHEN others THEN
                read[place] := NULL;
                not_stored[place] := concat_ws('; ', not_stored[place], format('%s: %s', member, SQLERRM));
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION _read_values IS 'Reads values of jobs that a remote worker sends as texts of JSON. member: the name of the argument. read: the values. Null: none was given, or it cannot be stored. not_stored: what was not stored of each job and why, with what this call adds.';

CREATE FUNCTION _count_as_late(ids uuid[], runs integer[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    UPDATE job AS j
    SET crashes = greatest(j.crashes - 1, 0),
        errors = jsonb_set(
            j.errors, '{-1,error}', '"lost: the worker did not extend its reservation in time. It lives: this was no crash"'
        )
    FROM (
        SELECT l.id
        FROM unnest(ids, runs) AS i (id, run)
        CROSS JOIN LATERAL (
            SELECT r.id
            FROM job AS r
            WHERE r.id = i.id AND _not_by_partial_index(r.finalized_at IS NULL)
                -- It waits, or is in its next run.
                AND r.run = i.run + CASE WHEN r.state = 'running' THEN 1 ELSE 0 END
                AND r.errors -> -1 ->> 'error' = 'rescued: the worker died, or did not extend its reservation'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS l
    ) AS c
    WHERE j.id = c.id;
END
$$;
COMMENT ON FUNCTION _count_as_late IS 'Takes back the crash of runs whose reservation ended, since the worker reported them afterwards: it is alive.';

CREATE FUNCTION extend_jobs(ids uuid[], runs integer[], reserve interval DEFAULT '1 minute', progress text[] DEFAULT NULL)
    RETURNS TABLE (id uuid, run integer, held boolean, state text, reserved_until timestamptz, not_stored text)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    ROWS 10
AS $$
DECLARE
    workers uuid[];
    extended bigint;
    reports jsonb[];
    dropped text[];
BEGIN
    PERFORM _check_runs(extend_jobs.ids, extend_jobs.runs, ARRAY[cardinality(extend_jobs.progress)]);
    PERFORM _check_reserve(extend_jobs.reserve);
    SELECT v.not_stored, v.read INTO dropped, reports FROM _read_values('progress', extend_jobs.progress, not_stored => NULL) AS v;
    WITH mine AS (
        -- A row that is locked is extended by the next call: a heartbeat waits for nothing.
        SELECT j.id
        FROM unnest(extend_jobs.ids, extend_jobs.runs) AS i (id, run)
        CROSS JOIN LATERAL (
            SELECT r.id
            FROM job AS r
            WHERE r.id = i.id AND _not_by_partial_index(r.state = 'running') AND r.run = i.run AND r.reserved_until IS NOT NULL
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS j
    ),
    extended AS (
        UPDATE job AS j
        SET reserved_until = clock_timestamp() + extend_jobs.reserve,
            progress = coalesce(reports[array_position(extend_jobs.ids, j.id)], j.progress)
        WHERE j.id = ANY (ARRAY(SELECT m.id FROM mine AS m))
        RETURNING j.worker
    )
    SELECT array_agg(DISTINCT e.worker), count(*) INTO workers, extended FROM extended AS e;
    IF extended < cardinality(extend_jobs.ids) THEN
        PERFORM _count_as_late(extend_jobs.ids, extend_jobs.runs);
    END IF;
    PERFORM _keep_alive(workers, extend_jobs.reserve);
    RETURN QUERY
    SELECT
        i.id, i.run, h.held, j.state, CASE WHEN h.held THEN j.reserved_until END, dropped[i.place]
    FROM unnest(extend_jobs.ids, extend_jobs.runs) WITH ORDINALITY AS i (id, run, place)
    LEFT JOIN LATERAL (
        SELECT r.state::text, r.run, r.reserved_until FROM job AS r WHERE r.id = i.id LIMIT 1
    ) AS j ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(j.state = 'running' AND j.run = i.run AND j.reserved_until IS NOT NULL, false) AS held
    ) AS h
    ORDER BY i.place;
END
$$;
COMMENT ON FUNCTION extend_jobs IS 'For remote workers: reserves running jobs for this time from now on, and stores their progress, texts of JSON. held: whether the job is still the worker''s. If not, its result will not count. state null: it was deleted. not_stored: why the progress was dropped. Waits for no lock. Runs with the rights of the schema''s owner. Error 22023: an argument is outside its limits.';

CREATE FUNCTION stop_worker(worker text) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM runner AS r
    WHERE r.name = stop_worker.worker COLLATE "C" AND r.remote
        AND NOT EXISTS (SELECT FROM job AS j WHERE j.worker = r.id AND j.state = 'running' AND j.queue = ANY (r.queues));
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE maintenance AS m
    SET holder = NULL, runner = NULL, leased_until = clock_timestamp()
    WHERE m.holder = _name_id(stop_worker.worker);
    RETURN removed;
END
$$;
COMMENT ON FUNCTION stop_worker IS 'For remote workers that stop: deletes the rows of the worker of this name that have no running job, and releases its leases of maintenance. So the worker no longer counts as alive. Another process of the same name gets a row again with its next fetch. Returns the number of deleted rows. Runs with the rights of the schema''s owner.';

CREATE FUNCTION _store_counts(worker_id uuid, completed bigint, failed bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
-- Sessions of one worker report in turn. Their reports within two seconds count in one span of time, so that no span is
-- too short to tell a rate.
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    UPDATE runner AS r
    SET completed = r.completed + _store_counts.completed,
        failed = r.failed + _store_counts.failed,
        counted_at = at,
        lately = greatest(at - s.began_at, interval '0'),
        lately_completed = _store_counts.completed + CASE WHEN s.goes_on THEN r.lately_completed ELSE 0 END,
        lately_failed = _store_counts.failed + CASE WHEN s.goes_on THEN r.lately_failed ELSE 0 END
    FROM (
        SELECT
            w.id, g.goes_on,
            CASE WHEN g.goes_on THEN w.counted_at - w.lately ELSE coalesce(w.counted_at, w.started_at) END AS began_at
        FROM runner AS w
        CROSS JOIN LATERAL (
            SELECT coalesce(w.counted_at > at - interval '2 s' AND w.lately < interval '15 s', false) AS goes_on
        ) AS g
        WHERE w.id = worker_id
        -- No result waits for another one's transaction.
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS s
    WHERE r.id = s.id;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION _store_counts IS 'Adds results to the counts of a remote worker''s row. Returns false if it is missing or locked.';

CREATE FUNCTION _count_results(worker_id uuid, completed bigint, failed bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
-- The session keeps its counts, and writes them every five seconds: a write for each result would leave a dead row
-- version for each while an old transaction is open. Counts that a session has not written at its end are lost.
DECLARE
    at CONSTANT double precision := extract(epoch FROM clock_timestamp());
    prefix CONSTANT text := current_schema() || '.';
    counts jsonb := coalesce(nullif(current_setting('uniqueue.worked', true), ''), '{}')::jsonb;
    own CONSTANT jsonb := coalesce(counts -> (prefix || worker_id), jsonb_build_array(0, 0, at));
    due record;
    is_stored boolean := false;
BEGIN
    counts := counts || jsonb_build_object(
        prefix || worker_id, jsonb_build_array((own ->> 0)::bigint + completed, (own ->> 1)::bigint + failed, own -> 2)
    );
    IF abs(at - (own ->> 2)::double precision) >= 5 THEN
        -- Behind a transaction pooler the session can have counts of several workers. Counts of a deleted row are dropped.
        FOR due IN
            SELECT c.name, c.value, abs(at - (c.value ->> 2)::double precision) AS age
            FROM jsonb_each(counts) AS c (name, value)
            WHERE starts_with(c.name COLLATE "C", prefix)
        LOOP
            CONTINUE WHEN due.age < 5;
            is_stored := _store_counts(
                right(due.name, 36)::uuid, (due.value ->> 0)::bigint, (due.value ->> 1)::bigint
            );
            IF is_stored OR due.age > 300 THEN
                counts := counts - due.name;
            END IF;
        END LOOP;
    END IF;
    PERFORM set_config('uniqueue.worked', counts::text, false);
    RETURN is_stored;
END
$$;
COMMENT ON FUNCTION _count_results IS 'Counts results of a remote worker, in the session, and in its row every five seconds.';

CREATE FUNCTION _check_error_details(details jsonb) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    members CONSTANT text[] := '{code, type, retryable, details}';
    problem CONSTANT text := CASE
        WHEN jsonb_typeof(details) <> 'object' THEN format('must be an object: %s', left(details::text, 80))
        WHEN details - members <> '{}' THEN
            format('unknown member: %s', (SELECT to_json(m.name) FROM jsonb_object_keys(details - members) AS m (name) LIMIT 1))
        WHEN (jsonb_typeof(details -> 'code') = 'string' AND octet_length(details ->> 'code') BETWEEN 1 AND 128) IS FALSE THEN
            format('code must be a text of 1 to 128 bytes: %s', left((details -> 'code')::text, 160))
        WHEN (jsonb_typeof(details -> 'type') = 'string' AND octet_length(details ->> 'type') BETWEEN 1 AND 256) IS FALSE THEN
            format('type must be a text of 1 to 256 bytes: %s', left((details -> 'type')::text, 300))
        WHEN jsonb_typeof(details -> 'retryable') <> 'boolean' THEN
            format('retryable must be true or false: %s', left((details -> 'retryable')::text, 80))
        WHEN octet_length((details -> 'details')::text) > 16384 THEN
            format('details must be at most 16384 bytes: %s', octet_length((details -> 'details')::text))
    END;
BEGIN
    RETURN problem IS NULL OR _refuse(problem);
END
$$;
COMMENT ON FUNCTION _check_error_details IS 'Raises error 22023 if the object cannot be one of the error_details of finish_jobs.';

CREATE TYPE running_times AS (
    id uuid,
    wait_seconds double precision,
    run_seconds double precision,
    kind text COLLATE "C",
    queue text COLLATE "C"
);
COMMENT ON TYPE running_times IS 'How long a running job waited, and how long it has run.';

CREATE FUNCTION finish_jobs(
    ids uuid[],
    runs integer[],
    outcomes text[],
    delays interval[] DEFAULT NULL,
    errors text[] DEFAULT NULL,
    outputs text[] DEFAULT NULL,
    progress text[] DEFAULT NULL,
    error_details text[] DEFAULT NULL
)
    RETURNS TABLE (id uuid, run integer, counted boolean, state text, locked boolean, not_stored text)
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    ROWS 10
    -- For a row that is locked after the locks were read.
    SET lock_timeout = '1s'
AS $$
DECLARE
    given record;
    times running_times[];
    locked_ids uuid[];
    dropped text[];
    results jsonb[];
    reports jsonb[];
    details jsonb[];
    ended_ids uuid[];
    ended_states text[];
    failed_ids uuid[];
BEGIN
    PERFORM _check_runs(
        finish_jobs.ids, finish_jobs.runs,
        ARRAY[cardinality(outcomes), cardinality(delays), cardinality(errors), cardinality(outputs), cardinality(progress)]
            || cardinality(error_details)
    );
    BEGIN
        results := outputs::jsonb[];
        reports := progress::jsonb[];
        details := error_details::jsonb[];
        IF array_remove(details, NULL) <> '{}' THEN
            PERFORM _check_error_details(d.details) FROM unnest(details) AS d (details) WHERE d.details IS NOT NULL;
        END IF;
    EXCEPTION
        -- One of the values cannot be stored. The others are.
        WHEN others THEN
            SELECT v.not_stored, v.read INTO dropped, results FROM _read_values('output', outputs, not_stored => NULL) AS v;
            SELECT v.not_stored, v.read INTO dropped, reports FROM _read_values('progress', progress, dropped) AS v;
            SELECT v.not_stored, v.read INTO dropped, details FROM _read_values('error_details', error_details, dropped) AS v;
    END;
    times := _running_times(finish_jobs.ids);
    -- No row tells beforehand: each has the lock of the fetch or heartbeat that wrote it, which has ended.
    locked_ids := ARRAY(SELECT t.id FROM unnest(times) AS t);
    -- A heartbeat has a row for a moment only.
    FOR round IN 1..10 LOOP
        PERFORM pg_sleep(0.01) WHERE round > 1;
        WITH free AS MATERIALIZED (
            SELECT j.id FROM job AS j WHERE j.id = ANY (locked_ids) FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(l.id), '{}') INTO locked_ids
        FROM (SELECT u.id FROM unnest(locked_ids) AS u (id) EXCEPT SELECT f.id FROM free AS f) AS l;
        EXIT WHEN locked_ids = '{}';
    END LOOP;
    SELECT
        array_agg(s.id) AS ids, array_agg(s.run) AS runs, array_agg(s.place) AS places, array_agg(s.outcome) AS outcomes,
        array_agg(CASE WHEN s.outcome IN ('retry', 'snooze') THEN s.delay END) AS delays,
        array_agg(CASE WHEN s.outcome IN ('retry', 'cancel', 'discard') THEN s.error END) AS errors,
        array_agg(CASE WHEN s.outcome IN ('retry', 'cancel', 'discard') THEN s.details END) AS details,
        array_agg(CASE WHEN s.outcome = 'complete' THEN s.output END) AS outputs,
        array_agg(s.report) AS reports,
        bool_and(s.outcome = 'complete' AND s.output IS NULL AND s.report IS NULL) AS are_bare,
        bool_and(CASE
            WHEN (s.outcome IN ('complete', 'retry', 'snooze', 'give_back', 'interrupt', 'cancel', 'discard')) IS NOT TRUE THEN _refuse(
                'invalid outcome: must be complete, retry, snooze, give_back, interrupt, cancel or discard: '
                || coalesce(to_json(s.outcome)::text, 'null')
            )
            WHEN s.outcome IN ('retry', 'cancel', 'discard') AND s.error IS NULL THEN
                _refuse(format('invalid error: must be given for outcome %s: null', s.outcome))
            WHEN s.outcome = 'snooze' AND s.delay IS NULL THEN
                _refuse('invalid delay: must be given for outcome snooze: null')
            WHEN s.outcome IN ('retry', 'snooze') AND s.delay NOT BETWEEN interval '0' AND interval '1000 years' THEN
                _refuse(format('invalid delay: must be 0 to 1000 years: %s', s.delay))
            ELSE true
        END) AS are_valid
    INTO given
    FROM (
        -- Of a job that is given twice, the later run, and of a run that is given twice, the first result: no other can count.
        SELECT DISTINCT ON (i.id) i.id, i.run, i.place, i.outcome, i.delay, i.error, i.output, i.report, i.details
        FROM unnest(finish_jobs.ids, finish_jobs.runs, outcomes, delays, errors, results, reports, details) WITH ORDINALITY
            AS i (id, run, outcome, delay, error, output, report, details, place)
        WHERE i.id <> ALL (locked_ids)
        ORDER BY i.id, i.run DESC, i.place
    ) AS s;
    IF given.are_bare THEN
        SELECT array_agg(e.id), array_agg(CASE WHEN e.id = ANY (c.discarded) THEN 'discarded' ELSE c.state END)
        INTO ended_ids, ended_states
        FROM _complete_runs(worker_id => NULL, patience => NULL, ids => given.ids, runs => given.runs) AS c
        CROSS JOIN unnest(c.ended) AS e (id);
    ELSIF given.ids IS NOT NULL THEN
        SELECT array_agg(e.id), array_agg(CASE WHEN e.id = ANY (f.discarded) THEN 'discarded' ELSE f.state END)
        INTO ended_ids, ended_states
        FROM _finish_runs(
            worker_id => NULL, patience => NULL, ids => given.ids, runs => given.runs, outcomes => given.outcomes,
            delays => given.delays, errors => given.errors, outputs => given.outputs, reports => given.reports,
            details => given.details
        ) AS f
        CROSS JOIN unnest(f.ended) AS e (id);
    END IF;
    IF ended_ids IS NOT NULL THEN
        failed_ids := ARRAY(
            SELECT e.id
            FROM unnest(ended_ids) AS e (id)
            WHERE NOT given.are_bare AND given.outcomes[width_bucket(e.id, given.ids)] IN ('retry', 'discard')
        );
        PERFORM _count_results(
            (SELECT j.worker FROM job AS j WHERE j.id = ended_ids[1]),
            cardinality(array_positions(ended_states, 'completed')), cardinality(failed_ids)
        );
        PERFORM _tally_runs(times, ended_ids, ended_states, failed_ids);
    END IF;
    IF coalesce(cardinality(ended_ids), 0) < cardinality(given.ids) THEN
        PERFORM _count_as_late(given.ids, given.runs);
    END IF;
    RETURN QUERY
    SELECT
        i.id, i.run, c.counted, CASE WHEN c.counted THEN e.state ELSE (SELECT j.state::text FROM job AS j WHERE j.id = i.id) END,
        i.id = ANY (locked_ids), dropped[i.place]
    FROM unnest(finish_jobs.ids, finish_jobs.runs) WITH ORDINALITY AS i (id, run, place)
    LEFT JOIN unnest(ended_ids, ended_states) AS e (id, state) ON e.id = i.id
    CROSS JOIN LATERAL (
        SELECT e.id IS NOT NULL AND i.place = given.places[width_bucket(i.id, given.ids)] AS counted OFFSET 0
    ) AS c
    ORDER BY i.place;
END
$$;
COMMENT ON FUNCTION finish_jobs IS 'For remote workers: ends runs. outcomes: complete, retry, snooze, give_back, interrupt, cancel or discard. The other arrays have an element for each job, or are null. counted: whether the result counted. locked: another transaction has the job, so send it again later. not_stored: the values that were dropped, and why. Runs with the rights of the schema''s owner. See docs/learn/any-language.md.';

CREATE FUNCTION complete_jobs(ids uuid[], runs integer[], outputs text[] DEFAULT NULL)
    RETURNS TABLE (id uuid, run integer, counted boolean, state text, locked boolean, not_stored text)
    LANGUAGE sql VOLATILE
    SECURITY DEFINER
    ROWS 10
BEGIN ATOMIC
    SELECT e.id, e.run, e.counted, e.state, e.locked, e.not_stored
    FROM finish_jobs(ids, runs, array_fill('complete'::text, ARRAY[coalesce(cardinality(ids), 0)]), outputs => outputs) AS e;
END;
COMMENT ON FUNCTION complete_jobs IS 'For remote workers: completes runs, with or without outputs. Otherwise as finish_jobs.';

CREATE FUNCTION fail_jobs(
    ids uuid[],
    runs integer[],
    errors text[],
    delays interval[] DEFAULT NULL,
    error_details text[] DEFAULT NULL
)
    RETURNS TABLE (id uuid, run integer, counted boolean, state text, locked boolean, not_stored text)
    LANGUAGE sql VOLATILE
    SECURITY DEFINER
    ROWS 10
BEGIN ATOMIC
    SELECT e.id, e.run, e.counted, e.state, e.locked, e.not_stored
    FROM finish_jobs(
        ids, runs, array_fill('retry'::text, ARRAY[coalesce(cardinality(ids), 0)]), delays => delays, errors => errors, error_details => error_details
    ) AS e;
END;
COMMENT ON FUNCTION fail_jobs IS 'For remote workers: records the errors of failed runs. The jobs are retried after the delays, or discarded if no attempt is left or error_details say so. Otherwise as finish_jobs.';

CREATE FUNCTION snooze_jobs(ids uuid[], runs integer[], delays interval[])
    RETURNS TABLE (id uuid, run integer, counted boolean, state text, locked boolean, not_stored text)
    LANGUAGE sql VOLATILE
    SECURITY DEFINER
    ROWS 10
BEGIN ATOMIC
    SELECT e.id, e.run, e.counted, e.state, e.locked, e.not_stored
    FROM finish_jobs(ids, runs, array_fill('snooze'::text, ARRAY[coalesce(cardinality(ids), 0)]), delays => delays) AS e;
END;
COMMENT ON FUNCTION snooze_jobs IS 'For remote workers: makes jobs wait, without using up an attempt. Otherwise as finish_jobs.';

CREATE FUNCTION give_back_jobs(ids uuid[], runs integer[])
    RETURNS TABLE (id uuid, run integer, counted boolean, state text, locked boolean, not_stored text)
    LANGUAGE sql VOLATILE
    SECURITY DEFINER
    ROWS 10
BEGIN ATOMIC
    SELECT e.id, e.run, e.counted, e.state, e.locked, e.not_stored
    FROM finish_jobs(ids, runs, array_fill('give_back'::text, ARRAY[coalesce(cardinality(ids), 0)])) AS e;
END;
COMMENT ON FUNCTION give_back_jobs IS 'For remote workers: returns jobs that they have not started to their places. Otherwise as finish_jobs.';

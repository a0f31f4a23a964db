-- History: the counts of events of jobs, by minute, by hour and by day, for each kind and queue.
--
-- A process of the library counts in memory and writes once a minute. Functions for users in SQL have no process that
-- counts: each call of insert_job, insert_jobs and finish_jobs appends one narrow row for each kind and queue to an
-- unlogged table without an index, in the caller's transaction. The pruner adds these rows up.
--
-- Each count is written to ten rows: to the minute, the hour and the day of the kind in its queue, of the queue, and of
-- all queues, and to the total of the queue. So a chart of a queue reads no row of a kind, the comparison of a thousand kinds
-- over a week reads eight rows of each, and no service has to roll minutes up.

CREATE FUNCTION _history_bounds() RETURNS double precision[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- Adjacent lines are one constant.
    RETURN '{0.001,0.00125,0.0016,0.002,0.0025,0.0032,0.004,0.005,0.0063,0.008,0.01,0.0125,0.016,0.02,0.025,0.032,0.04,0.05,0.063,0.08,'
        '0.1,0.125,0.16,0.2,0.25,0.32,0.4,0.5,0.63,0.8,1,1.25,1.6,2,2.5,3.2,4,5,6.3,8,'
        '10,12.5,16,20,25,32,40,50,63,80,100,125,160,200,250,320,400,500,630,800,'
        '1000,1250,1600,2000,2500,3200,4000,5000,6300,8000,10000,12500,16000,20000,25000,32000,40000,50000,63000,80000}'::double precision[];
COMMENT ON FUNCTION _history_bounds() IS 'The 80 bounds of the histograms in history, in seconds, ten a decade. Element 1 of a histogram counts times below the first bound. The last element, 81, counts times from the last bound on.';

CREATE TABLE history (
    at timestamptz NOT NULL,
    inserted bigint NOT NULL,
    duplicates bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    discarded bigint NOT NULL,
    wait_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    span text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    waits integer[] NOT NULL,
    runs integer[] NOT NULL,
    CONSTRAINT history_pkey PRIMARY KEY (span, kind, queue, at)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE history IS 'The counts of events of jobs, by minute for 7 days, by hour for 90 days and by day for 91 days. The view kind_history is made for reading. A process of the library writes its counts once a minute, so the last two minutes are incomplete.';
COMMENT ON COLUMN history.at IS 'The start of the minute, the hour or the day. A day begins at 00:00 UTC.';
COMMENT ON COLUMN history.inserted IS 'The number of inserted jobs. Inserts in a transaction that rolled back count if the library made them, and not if insert_job or insert_jobs did.';
COMMENT ON COLUMN history.duplicates IS 'The number of inserts through the library that were duplicates. Duplicates of insert_job and insert_jobs write nothing and are not counted here: see audit_duplicates.';
COMMENT ON COLUMN history.completed IS 'The number of completed runs.';
COMMENT ON COLUMN history.failed IS 'The number of failed runs, with or without another attempt.';
COMMENT ON COLUMN history.discarded IS 'The number of discarded jobs. Jobs that a statement other than a finish of a remote worker discarded in SQL are not counted.';
COMMENT ON COLUMN history.wait_seconds IS 'The sum of the waits in waits, in seconds.';
COMMENT ON COLUMN history.run_seconds IS 'The sum of the times in runs, in seconds.';
COMMENT ON COLUMN history.span IS 'minute, hour or day.';
COMMENT ON COLUMN history.kind IS 'The kind. Empty: all kinds.';
COMMENT ON COLUMN history.queue IS 'The queue. Empty: all queues.';
COMMENT ON COLUMN history.waits IS 'How long ended runs had waited from when their job was due: a histogram with the bounds of _history_bounds. Zeros at the end are left out.';
COMMENT ON COLUMN history.runs IS 'How long ended runs took: a histogram as waits.';

CREATE INDEX history_at ON history (span, at);
COMMENT ON INDEX history_at IS 'Serves the comparison of all kinds or queues in a time, and the pruner.';

CREATE TABLE history_total (
    inserted bigint NOT NULL,
    duplicates bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    discarded bigint NOT NULL,
    wait_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    queue text COLLATE "C" NOT NULL,
    waits bigint[] NOT NULL,
    runs bigint[] NOT NULL,
    CONSTRAINT history_total_pkey PRIMARY KEY (queue)
) WITH (fillfactor = 50);
COMMENT ON TABLE history_total IS 'The counts of events of the jobs of each queue since it was first used. The counts only grow, as a metrics system needs them. The row of a queue is deleted when the queue is removed, and after 91 days without an event.';
COMMENT ON COLUMN history_total.queue IS 'The queue.';

CREATE TABLE history_writer (
    id uuid NOT NULL,
    batch bigint NOT NULL,
    written_at timestamptz NOT NULL,
    CONSTRAINT history_writer_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE history_writer IS 'The last batch of counts of each process, so that a batch that is sent twice counts once.';
COMMENT ON COLUMN history_writer.id IS 'The id of the process, made when its client was made.';
COMMENT ON COLUMN history_writer.batch IS 'The number of the last batch.';
COMMENT ON COLUMN history_writer.written_at IS 'When it was written. The row is deleted a week later.';

CREATE UNLOGGED TABLE history_tally (
    at timestamptz NOT NULL,
    inserted integer NOT NULL,
    completed integer NOT NULL,
    failed integer NOT NULL,
    discarded integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    waits double precision[] NOT NULL,
    runs double precision[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);
COMMENT ON TABLE history_tally IS 'Counts of calls in SQL that the pruner has not added to history. A crash of the server empties it.';
COMMENT ON COLUMN history_tally.at IS 'When the call was made.';
COMMENT ON COLUMN history_tally.failed IS 'The number of failed runs.';
COMMENT ON COLUMN history_tally.waits IS 'How long each run had waited, in seconds.';
COMMENT ON COLUMN history_tally.runs IS 'How long each run took, in seconds.';
COMMENT ON COLUMN history_tally.queue IS 'The queue.';
COMMENT ON COLUMN history_tally.kind IS 'The kind.';

CREATE TABLE deploy (
    at timestamptz NOT NULL,
    version text COLLATE "C" NOT NULL,
    CONSTRAINT deploy_pkey PRIMARY KEY (at)
);
COMMENT ON TABLE deploy IS 'When runners of a new version began to work: a runner that says its version started, no other live runner had that version, and the last row has another one. Rows are kept for 90 days.';
COMMENT ON COLUMN deploy.at IS 'When the runner started.';
COMMENT ON COLUMN deploy.version IS 'The version of the application, as the runner says it.';

CREATE FUNCTION _note_deploy(version text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
AS $$
BEGIN
    INSERT INTO deploy (at, version)
    SELECT clock_timestamp(), _note_deploy.version
    WHERE octet_length(_note_deploy.version) BETWEEN 1 AND 200
        AND _note_deploy.version IS DISTINCT FROM (SELECT d.version FROM deploy AS d ORDER BY d.at DESC LIMIT 1)
        AND NOT EXISTS (
            SELECT FROM runner AS r
            WHERE r.version = _note_deploy.version COLLATE "C" AND r.leased_until > clock_timestamp()
        )
    ON CONFLICT (at) DO NOTHING;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION _note_deploy IS 'Notes that runners of a version begin to work, unless a live runner or the last row of deploy has the version. Returns whether it did. Null: does nothing.';

CREATE FUNCTION _add_counts(one bigint[], other bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
-- A loop is cheaper than unnest and array_agg. A SET clause would cost more than the loop.
DECLARE
    sum bigint[] := one;
BEGIN
    FOR i IN 1 .. cardinality(other) LOOP
        sum[i] := coalesce(sum[i], 0) + other[i];
    END LOOP;
    RETURN sum;
END
$$;
COMMENT ON FUNCTION _add_counts(bigint[], bigint[]) IS 'The sum of two histograms, element by element. The shorter one ends with zeros.';

CREATE FUNCTION _histogram(seconds double precision[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
SELECT coalesce(array_agg(coalesce(c.times, 0) ORDER BY p.place), '{}')
FROM (
    SELECT width_bucket(s.length, _history_bounds()) AS place, count(*) AS times
    FROM unnest(seconds) AS s (length)
    WHERE s.length IS NOT NULL
    GROUP BY 1
) AS c
RIGHT JOIN generate_series(
    0, (SELECT max(width_bucket(s.length, _history_bounds())) FROM unnest(seconds) AS s (length))
) AS p (place) ON p.place = c.place
$$;
COMMENT ON FUNCTION _histogram(double precision[]) IS 'The histogram of these times, with the bounds of _history_bounds. Zeros at the end are left out.';

CREATE FUNCTION _add_history(minute timestamptz, counts jsonb) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    written integer;
BEGIN
    WITH given AS MATERIALIZED (
        SELECT
            c.kind, c.queue, coalesce(c.inserted, 0) AS inserted, coalesce(c.duplicates, 0) AS duplicates,
            coalesce(c.completed, 0) AS completed, coalesce(c.failed, 0) AS failed, coalesce(c.discarded, 0) AS discarded,
            coalesce(c.wait_seconds, 0) AS wait_seconds, coalesce(c.run_seconds, 0) AS run_seconds,
            coalesce(c.waits[1:81], '{}') AS waits, coalesce(c.runs[1:81], '{}') AS runs
        FROM jsonb_to_recordset(counts) AS c (
            kind text, queue text, inserted bigint, duplicates bigint, completed bigint, failed bigint, discarded bigint,
            wait_seconds double precision, run_seconds double precision, waits bigint[], runs bigint[]
        )
        WHERE octet_length(c.kind) <= 128 AND octet_length(c.queue) <= 128
    ),
    totalled AS (
        INSERT INTO history_total AS t (
            inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, queue, waits, runs
        )
        SELECT
            g.inserted, g.duplicates, g.completed, g.failed, g.discarded, g.wait_seconds, g.run_seconds, g.queue, g.waits, g.runs
        FROM given AS g
        WHERE g.kind = '' AND g.queue <> ''
        ON CONFLICT (queue) DO UPDATE SET
            inserted = t.inserted + excluded.inserted,
            duplicates = t.duplicates + excluded.duplicates,
            completed = t.completed + excluded.completed,
            failed = t.failed + excluded.failed,
            discarded = t.discarded + excluded.discarded,
            wait_seconds = t.wait_seconds + excluded.wait_seconds,
            run_seconds = t.run_seconds + excluded.run_seconds,
            waits = _add_counts(t.waits, excluded.waits),
            runs = _add_counts(t.runs, excluded.runs)
    )
    INSERT INTO history AS h (
        at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs
    )
    SELECT
        s.at, g.inserted, g.duplicates, g.completed, g.failed, g.discarded, g.wait_seconds, g.run_seconds, s.span, g.kind,
        g.queue, g.waits, g.runs
    FROM given AS g
    CROSS JOIN LATERAL (VALUES
        ('minute', minute),
        ('hour', date_trunc('hour', minute, 'UTC')),
        ('day', date_trunc('day', minute, 'UTC'))
    ) AS s (span, at)
    ON CONFLICT (span, kind, queue, at) DO UPDATE SET
        inserted = h.inserted + excluded.inserted,
        duplicates = h.duplicates + excluded.duplicates,
        completed = h.completed + excluded.completed,
        failed = h.failed + excluded.failed,
        discarded = h.discarded + excluded.discarded,
        wait_seconds = h.wait_seconds + excluded.wait_seconds,
        run_seconds = h.run_seconds + excluded.run_seconds,
        waits = _add_counts(h.waits::bigint[], excluded.waits::bigint[])::integer[],
        runs = _add_counts(h.runs::bigint[], excluded.runs::bigint[])::integer[];
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;
COMMENT ON FUNCTION _add_history(timestamptz, jsonb) IS 'Adds counts to the rows of a minute, of its hour and of its day, and to the totals of the queues. counts: an array of objects with the columns of history, each kind and queue once. The caller gives the sums over kinds and queues as well, with an empty kind and queue. The caller keeps other writers away. Returns the number of written rows of history.';

CREATE FUNCTION _write_history(writer uuid, batch bigint, minutes jsonb) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
AS $$
-- Runs with the rights of the schema's owner, so that the roles that insert and work need none on these tables.
DECLARE
    given record;
BEGIN
    -- One writer at a time: two that write several days could deadlock. Both would wait anyway, for the row of the day.
    PERFORM pg_advisory_xact_lock(hashtext('uniqueue.history'), to_regclass('history')::oid::integer);
    -- The fence: a batch that was committed before its answer was lost is sent again with its number.
    INSERT INTO history_writer AS w (id, batch, written_at)
    VALUES (writer, _write_history.batch, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at WHERE w.batch < excluded.batch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOR given IN
        SELECT
            date_trunc(
                'minute', clock_timestamp() - make_interval(secs => least(greatest((m.minute ->> 'age')::double precision, 0), 604800))
            ) AS at,
            m.minute -> 'counts' AS counts
        FROM jsonb_array_elements(minutes) AS m (minute)
    LOOP
        PERFORM _add_history(given.at, given.counts);
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION _write_history(uuid, bigint, jsonb) IS 'Writes what a process counted. writer: its id. batch: a number that grows with each batch. minutes: an array of objects. age is how many seconds ago the middle of the counted time was, and counts is as for _add_history. The database''s clock decides which minute that is. Returns false if the batch was written before. A process of the library calls it once a minute if it counted anything.';

CREATE FUNCTION _running_times(ids uuid[]) RETURNS running_times[]
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN ARRAY(
        SELECT (
            j.id,
            -- Up to PostgreSQL 16 infinite times have no difference.
            CASE
                WHEN isfinite(j.attempted_at) AND isfinite(j.scheduled_at)
                    THEN greatest(extract(epoch FROM j.attempted_at - j.scheduled_at), 0)::double precision
            END,
            CASE
                WHEN isfinite(j.attempted_at)
                    THEN greatest(extract(epoch FROM clock_timestamp() - j.attempted_at), 0)::double precision
            END,
            j.kind,
            j.queue
        )::running_times
        FROM job AS j
        WHERE j.id = ANY (ids) AND _not_by_partial_index(j.state = 'running')
    );
END
$$;
COMMENT ON FUNCTION _running_times(uuid[]) IS 'The times of the running jobs among these ids. A time is null if it begins or ends at infinity. A finish calls this before it ends the jobs, because a retry changes scheduled_at.';

CREATE FUNCTION _tally_runs(times running_times[], ended uuid[], states text[], failed uuid[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    tallied integer;
BEGIN
    INSERT INTO history_tally (at, inserted, completed, failed, discarded, kind, queue, waits, runs)
    SELECT
        clock_timestamp(), 0, count(*) FILTER (WHERE e.state = 'completed'), count(*) FILTER (WHERE e.id = ANY (_tally_runs.failed)),
        count(*) FILTER (WHERE e.state = 'discarded'), t.kind, t.queue, array_agg(t.wait_seconds), array_agg(t.run_seconds)
    FROM unnest(ended, states) AS e (id, state)
    JOIN unnest(times) AS t ON t.id = e.id
    GROUP BY t.kind, t.queue;
    GET DIAGNOSTICS tallied = ROW_COUNT;
    RETURN tallied;
END
$$;
COMMENT ON FUNCTION _tally_runs(running_times[], uuid[], text[], uuid[]) IS 'Tallies runs that a remote worker ended. times: as _running_times returned them before. ended, states: the jobs whose results counted, and their states since. failed: those of them whose runs failed. Returns the number of written rows.';

CREATE FUNCTION _fold_history(size integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    given record;
    folded integer := 0;
BEGIN
    -- As in _write_history.
    PERFORM pg_advisory_xact_lock(hashtext('uniqueue.history'), to_regclass('history')::oid::integer);
    -- The sums over kinds and queues are made here, as a process of the library makes them.
    FOR given IN
        WITH taken AS (
            DELETE FROM history_tally AS t
            WHERE t.ctid = ANY (ARRAY(SELECT s.ctid FROM history_tally AS s LIMIT size FOR UPDATE SKIP LOCKED))
            RETURNING t.*
        ),
        spread AS (
            SELECT
                date_trunc('minute', t.at) AS at, l.kind, l.queue, t.inserted, t.completed, t.failed, t.discarded, t.waits, t.runs
            FROM taken AS t
            CROSS JOIN LATERAL (VALUES (t.kind, t.queue), ('', t.queue), ('', '')) AS l (kind, queue)
        ),
        timed AS (
            SELECT
                s.at, s.kind, s.queue, _histogram(array_agg(u.wait)) AS waits, _histogram(array_agg(u.run)) AS runs,
                sum(u.wait) AS wait_seconds, sum(u.run) AS run_seconds
            FROM spread AS s
            CROSS JOIN LATERAL unnest(s.waits, s.runs) AS u (wait, run)
            GROUP BY s.at, s.kind, s.queue
        ),
        counted AS (
            SELECT
                s.at, s.kind, s.queue, sum(s.inserted) AS inserted, sum(s.completed) AS completed, sum(s.failed) AS failed,
                sum(s.discarded) AS discarded, count(*) AS tallies
            FROM spread AS s
            GROUP BY s.at, s.kind, s.queue
        )
        SELECT
            c.at, sum(c.tallies) FILTER (WHERE c.queue = '') AS tallies,
            jsonb_agg(to_jsonb(c) - '{at,tallies}'::text[] || coalesce(to_jsonb(t) - 'at', '{}')) AS counts
        FROM counted AS c
        LEFT JOIN timed AS t ON t.at = c.at AND t.kind = c.kind AND t.queue = c.queue
        GROUP BY c.at
        ORDER BY c.at
    LOOP
        PERFORM _add_history(given.at, given.counts);
        folded := folded + given.tallies;
    END LOOP;
    RETURN folded;
END
$$;
COMMENT ON FUNCTION _fold_history IS 'Moves up to size rows of history_tally to history. Returns their number.';

CREATE FUNCTION _tend_history(size integer DEFAULT 10000) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
AS $$
DECLARE
    -- A constant, so that the index serves.
    instant CONSTANT timestamptz := clock_timestamp();
    most integer;
    deleted integer;
    kept record;
BEGIN
    most := _fold_history(size);
    FOR kept IN
        SELECT k.span, k.keep
        FROM (VALUES ('minute', interval '7 days'), ('hour', interval '90 days'), ('day', interval '91 days')) AS k (span, keep)
    LOOP
        DELETE FROM history AS h
        WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid
            FROM history AS o
            WHERE o.span = kept.span COLLATE "C" AND o.at < instant - kept.keep
            ORDER BY o.at
            LIMIT size
            FOR UPDATE SKIP LOCKED
        ));
        GET DIAGNOSTICS deleted = ROW_COUNT;
        most := greatest(most, deleted);
    END LOOP;
    DELETE FROM history_writer AS w WHERE w.written_at < clock_timestamp() - interval '7 days';
    DELETE FROM deploy AS d WHERE d.at < clock_timestamp() - interval '90 days';
    -- A queue that is not used any more. _fold_history keeps other writers away until the end of the transaction.
    DELETE FROM history_total AS t
    WHERE NOT EXISTS (
        SELECT FROM history AS h WHERE h.span = 'day' COLLATE "C" AND h.kind = '' COLLATE "C" AND h.queue = t.queue
    );
    RETURN most;
END
$$;
COMMENT ON FUNCTION _tend_history(integer) IS 'Adds up to size rows of history_tally to history, and deletes up to size minutes after 7 days, hours after 90 days and days after 91 days. Deletes the totals of queues that have no day left. Returns the greatest of these numbers of rows. If it is size, there may be more. The pruner calls it until there are none.';

CREATE FUNCTION _history_percentile(counts integer[], share double precision) RETURNS double precision
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    bounds CONSTANT double precision[] := _history_bounds();
    target double precision := 0;
    seen bigint := 0;
BEGIN
    FOR i IN 1 .. coalesce(cardinality(counts), 0) LOOP
        target := target + counts[i];
    END LOOP;
    target := target * share;
    FOR place IN 1 .. coalesce(cardinality(counts), 0) LOOP
        seen := seen + counts[place];
        IF counts[place] > 0 AND seen >= target THEN
            RETURN CASE
                WHEN place = 1 THEN bounds[1] / 2
                WHEN place > cardinality(bounds) THEN bounds[cardinality(bounds)]
                -- The value whose distance to either bound is the same share of that bound.
                ELSE 2 * bounds[place - 1] * bounds[place] / (bounds[place - 1] + bounds[place])
            END;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION _history_percentile IS 'The seconds that this share of a histogram did not exceed, at most 13 % off. Null: it is empty.';

CREATE VIEW kind_history AS
SELECT
    h.span, h.at, h.queue, h.kind, h.inserted, h.duplicates, h.completed, h.failed, h.discarded,
    _history_percentile(h.waits, 0.5) AS wait_p50, _history_percentile(h.waits, 0.95) AS wait_p95,
    _history_percentile(h.waits, 0.99) AS wait_p99,
    _history_percentile(h.runs, 0.5) AS run_p50, _history_percentile(h.runs, 0.95) AS run_p95,
    _history_percentile(h.runs, 0.99) AS run_p99
-- A join, so that the view cannot be written.
FROM (VALUES ('minute' COLLATE "C"), ('hour'), ('day')) AS s (span)
JOIN history AS h ON h.span = s.span
WHERE h.kind <> '';
COMMENT ON VIEW kind_history IS 'The counts of events of jobs by queue and kind, in each minute of the last 7 days, each hour of the last 90 and each day of the last 91. A minute in which nothing happened has no row. The last two minutes are incomplete.';
COMMENT ON COLUMN kind_history.queue IS 'The queue.';
COMMENT ON COLUMN kind_history.kind IS 'The kind.';
COMMENT ON COLUMN kind_history.span IS 'minute, hour or day. A query names one of them, because each event counts in all three.';
COMMENT ON COLUMN kind_history.wait_p50 IS 'How long half of the ended runs had waited at most, in seconds. Null: no run ended.';
COMMENT ON COLUMN kind_history.wait_p95 IS 'How long 95 % of the ended runs had waited at most, in seconds.';
COMMENT ON COLUMN kind_history.wait_p99 IS 'How long 99 % of the ended runs had waited at most, in seconds.';
COMMENT ON COLUMN kind_history.run_p50 IS 'How long half of the ended runs took at most, in seconds. Null: no run ended.';
COMMENT ON COLUMN kind_history.run_p95 IS 'How long 95 % of the ended runs took at most, in seconds.';
COMMENT ON COLUMN kind_history.run_p99 IS 'How long 99 % of the ended runs took at most, in seconds.';

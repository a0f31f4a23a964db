-- Deleting old jobs, and what else is kept for a time only.

CREATE TABLE prune_range (
    ahead boolean NOT NULL,
    after_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    jobs bigint NOT NULL,
    CONSTRAINT prune_range_pkey PRIMARY KEY (ahead, after_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE prune_range IS 'Ranges of job ids, and when the pruner reads each again. So a table full of jobs that wait, run or are retained costs one visit to each range, not one a round. Without rows the pruner reads all jobs.';
COMMENT ON COLUMN prune_range.ahead IS 'Whether the ids of the range are beyond those of young jobs: from clocks that are ahead, or from no clock.';
COMMENT ON COLUMN prune_range.after_id IS 'The range is of the ids after this one, up to after_id of the next range.';
COMMENT ON COLUMN prune_range.due_at IS 'When a job of the range can be deleted, at the earliest.';
COMMENT ON COLUMN prune_range.jobs IS 'How many jobs the last visit left in the range.';

CREATE FUNCTION _prune_jobs(
    after_id uuid, last_id uuid, most bigint, keep_completed interval, keep_cancelled interval, keep_discarded interval,
    open_for interval, INOUT state jsonb DEFAULT '{}',
    OUT pruned bigint, OUT remaining bigint, OUT reached uuid, OUT next_in bigint, OUT is_slow boolean, OUT warnings jsonb
)
    LANGUAGE plpgsql VOLATILE
AS $$
-- Ids follow time, so the primary key serves and no index on finalized_at is needed. A job whose claim has a deadline is
-- kept until then: its row is the claim, so deleting it early would end the claim early.
DECLARE
    seen record;
    batch record;
BEGIN
    WITH scanned AS MATERIALIZED (
        SELECT j.id, j.queue, j.state, j.finalized_at, j.claims, j.unique_until
        FROM job AS j
        WHERE j.id >= _prune_jobs.after_id AND j.id <= last_id
            -- The nil id is after none.
            AND (j.id > _prune_jobs.after_id OR _prune_jobs.after_id = '00000000-0000-0000-0000-000000000000')
        ORDER BY j.id
        LIMIT least(most, (_prune_jobs.state ->> 'most')::bigint)
    ),
    aged AS MATERIALIZED (
        SELECT
            w.id,
            CASE
                WHEN w.finalized_at IS NULL THEN clock_timestamp() + open_for
                WHEN k.keep IS NOT NULL THEN
                    -- A retention can be as long as an interval, and no time may be out of range.
                    greatest(w.finalized_at + least(k.keep, interval '1000 years'), CASE WHEN w.claims THEN w.unique_until END)
            END AS goes_at
        FROM scanned AS w
        LEFT JOIN queue AS q ON q.name = w.queue
        CROSS JOIN LATERAL (
            SELECT CASE w.state
                WHEN 'completed' THEN coalesce(q.keep_completed, _prune_jobs.keep_completed)
                WHEN 'cancelled' THEN coalesce(q.keep_cancelled, _prune_jobs.keep_cancelled)
                WHEN 'discarded' THEN coalesce(q.keep_discarded, _prune_jobs.keep_discarded)
            END AS keep
        ) AS k
    )
    SELECT
        array_agg(a.id ORDER BY a.id) AS ids,
        array_agg(a.goes_at ORDER BY a.id) AS goes_at,
        coalesce(array_agg(a.id) FILTER (WHERE a.goes_at <= clock_timestamp()), '{}') AS old,
        count(*) AS jobs
    INTO seen
    FROM aged AS a;
    SELECT b.* INTO batch FROM _run_batch('pruner', '{}', seen.old, state) AS b;
    state := batch.state;
    is_slow := batch.is_slow;
    warnings := batch.warnings;
    pruned := cardinality(batch.ids);
    remaining := seen.jobs - pruned;
    reached := CASE WHEN seen.jobs >= most OR seen.jobs >= (state ->> 'most')::bigint OR batch.is_refused THEN seen.ids[seen.jobs] END;
    next_in := (
        SELECT (extract(epoch FROM least(min(CASE
            WHEN a.goes_at > clock_timestamp() THEN a.goes_at
            -- Another batch may delete more of the rest, until one deletes nothing.
            WHEN batch.has_rest AND pruned > 0 THEN clock_timestamp()
            -- Else jobs that the database refuses to delete stay for a day.
            WHEN NOT batch.is_refused THEN clock_timestamp() + least(open_for, interval '10 min')
        END), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM unnest(seen.ids, seen.goes_at) AS a (id, goes_at)
        WHERE a.id <> ALL (batch.ids)
    );
END
$$;
COMMENT ON FUNCTION _prune_jobs IS 'Deletes final jobs past their retention among the first most jobs of a range of ids. keep_…: the retention of queues that set none. Null: for ever. reached: the last id that was read. Null: the range was read to its end. next_in: the milliseconds until another job can be deleted, where an open job counts after open_for. state, is_slow, warnings: as of _run_batch.';

CREATE FUNCTION _prune_others() RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    groups bigint;
BEGIN
    DELETE FROM queue_group AS g
    WHERE (g.queue, g.group_key) IN (
            SELECT p.queue, p.group_key
            FROM queue_group AS p
            WHERE coalesce(greatest(p.rate_full_at, p.held_until) < clock_timestamp(), true)
            LIMIT 1000
            FOR UPDATE SKIP LOCKED
        )
        -- Asked again of a row that was changed meanwhile. A fetch that has a row locked moves its times ahead.
        AND coalesce(greatest(g.rate_full_at, g.held_until) < clock_timestamp(), true);
    GET DIAGNOSTICS groups = ROW_COUNT;
    DELETE FROM change_log AS l
    WHERE l.id IN (
        SELECT f.id
        FROM (SELECT c.id, c.at FROM change_log AS c ORDER BY c.id LIMIT 1000) AS f
        WHERE f.at < clock_timestamp() - interval '90 days'
    );
    RETURN groups / 1000 + _tend_history(10000) / 10000 + fold_duplicates(10000) / 10000 > 0;
END
$$;
COMMENT ON FUNCTION _prune_others IS 'What the pruner does besides deleting jobs: deletes rows of groups whose times have passed (a group without a row is treated the same) and logged changes after 90 days, tends the history, and folds the records of suppressed duplicates. Each as much as one transaction may. Returns whether there may be more.';

CREATE FUNCTION _run_pruner(settings jsonb, INOUT state jsonb, OUT changed bigint, OUT next_in bigint, OUT warnings jsonb)
    LANGUAGE plpgsql VOLATILE
AS $$
-- A round begins with the bounds: jobs whose ids are younger than the shortest retention stay, so they are not read. It visits
-- the ranges that are due, one after another while visits delete much, and else a limited number, so that a table full of
-- retained jobs costs little. The next round goes on behind the last visit. A call ends after 200 ms.
DECLARE
    largest CONSTANT bigint := 1000;
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT bigint := coalesce((settings ->> 'interval')::bigint, 30000);
    keep CONSTANT interval[] := ARRAY[
        make_interval(secs => (settings -> 'keep' ->> 'completed')::double precision),
        make_interval(secs => (settings -> 'keep' ->> 'cancelled')::double precision),
        make_interval(secs => (settings -> 'keep' ->> 'discarded')::double precision)
    ];
    visits integer := coalesce((state ->> 'visits')::integer, 50);
    has_failed boolean := state ? 'failed';
    bounds record;
    due record;
    place jsonb;
    visit record;
    merged_jobs bigint;
    merged_due_at timestamptz;
BEGIN
    changed := 0;
    next_in := 0;
    warnings := '[]';
    -- An id of more than ten minutes ahead counts as old. A young_from of null: no job is deleted.
    SELECT
        id_at(began - k.shortest) AS young_from, id_at(began + interval '10 minutes') AS young_to, extract(epoch FROM k.shortest) AS shortest,
        md5(keep::text || k.of_queues) AS retention
    INTO bounds
    FROM (
        SELECT
            -- A retention can be as long as an interval, and the difference must stay a valid time.
            least(keep[1], keep[2], keep[3], min(least(s.own, interval '1000 years'))) AS shortest,
            coalesce(string_agg(q.name || (q.keep_completed, q.keep_cancelled, q.keep_discarded)::text, ', ' ORDER BY q.name), '') AS of_queues
        FROM queue AS q
        CROSS JOIN LATERAL (SELECT least(q.keep_completed, q.keep_cancelled, q.keep_discarded) AS own) AS s
        WHERE s.own IS NOT NULL
    ) AS k;
    IF state ->> 'retention' IS DISTINCT FROM bounds.retention THEN
        UPDATE prune_range AS r SET due_at = began;
        INSERT INTO prune_range AS r (ahead, after_id, due_at, jobs)
        SELECT a.ahead, '00000000-0000-0000-0000-000000000000', began, 0
        FROM (VALUES (false), (true)) AS a (ahead)
        ON CONFLICT ON CONSTRAINT prune_range_pkey DO NOTHING;
        state := state || jsonb_build_object('retention', bounds.retention);
    END IF;
    LOOP
        SELECT
            r.ahead, r.after_id,
            (
                SELECT n.after_id
                FROM prune_range AS n
                WHERE n.ahead = r.ahead AND n.after_id > r.after_id
                ORDER BY n.after_id
                LIMIT 1
            ) AS upto
        INTO due
        FROM prune_range AS r
        WHERE r.due_at <= clock_timestamp() AND visits > 0 AND bounds.young_from IS NOT NULL
            AND (
                NOT state ? 'after_id'
                OR (r.ahead, r.after_id) > ((state ->> 'ahead')::boolean, (state ->> 'after_id')::uuid)
            )
        ORDER BY r.ahead, r.after_id
        LIMIT 1;
        EXIT WHEN NOT FOUND;
        place := jsonb_build_object('ahead', due.ahead, 'after_id', due.after_id);
        IF has_failed THEN
            -- The last call failed at this range. Another round comes to it.
            has_failed := false;
            state := state || place;
            CONTINUE;
        END IF;
        SELECT p.*
        INTO visit
        FROM _prune_jobs(
            CASE WHEN due.ahead THEN greatest(due.after_id, bounds.young_to) ELSE due.after_id END,
            CASE
                WHEN due.ahead THEN coalesce(due.upto, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                ELSE least(due.upto, bounds.young_from)
            END,
            -- A job that is not final is read again when it may be deleted, and after 20 rounds at the earliest.
            largest, keep[1], keep[2], keep[3], make_interval(secs => greatest(bounds.shortest, longest / 50.0)::double precision), state
        ) AS p;
        changed := changed + visit.pruned;
        warnings := warnings || visit.warnings;
        state := visit.state;
        -- Else the next visit is to the same range, with a smaller batch.
        EXIT WHEN visit.is_slow;
        state := state || place;
        -- Jobs grow old beyond the end of the last range all the time.
        visit.next_in := CASE WHEN due.upto IS NULL AND visit.reached IS NULL THEN 0 ELSE visit.next_in END;
        merged_jobs := 0;
        merged_due_at := NULL;
        IF visit.reached IS NOT NULL THEN
            INSERT INTO prune_range AS r (ahead, after_id, due_at, jobs)
            VALUES (due.ahead, visit.reached, clock_timestamp(), largest)
            ON CONFLICT ON CONSTRAINT prune_range_pkey DO NOTHING;
        ELSE
            -- Ranges that have become nearly empty are merged.
            DELETE FROM prune_range AS r
            WHERE r.ahead = due.ahead AND r.after_id = due.upto AND r.jobs + visit.remaining <= largest / 2
            RETURNING r.due_at, r.jobs INTO merged_due_at, merged_jobs;
        END IF;
        UPDATE prune_range AS r
        SET jobs = visit.remaining + coalesce(merged_jobs, 0),
            due_at = least(
                -- A change by hand cannot be foreseen.
                clock_timestamp() + make_interval(secs => least(visit.next_in, 86400000) / 1000.0), merged_due_at
            )
        WHERE r.ahead = due.ahead AND r.after_id = due.after_id;
        visits := visits - (visit.pruned * 10 < visit.pruned + visit.remaining)::integer;
        EXIT WHEN clock_timestamp() > began + interval '200 ms';
    END LOOP;
    state := state || jsonb_build_object('visits', visits);
    -- Not in a call that deletes jobs, so that a failure of the audit keeps no job from being pruned.
    IF due.ahead IS NULL AND changed = 0 THEN
        -- The next round begins at once where there is more.
        next_in := CASE WHEN _prune_others() THEN 0 ELSE longest END;
        state := state - CASE WHEN visits > 0 THEN '{visits,ahead,after_id}' ELSE '{visits}' END::text[];
    END IF;
END
$$;
COMMENT ON FUNCTION _run_pruner IS 'Runs the pruner once: visits ranges of ids for up to 200 ms. A round ends with _prune_others, in a call that deletes no job. settings: interval, from a round to the next, and keep, the seconds of retention of queues that set none. For the other arguments see _run_service.';

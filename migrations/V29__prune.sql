-- Deleting old jobs, and what else is kept for a time only.

CREATE FUNCTION _prune_bounds(keep_completed interval, keep_cancelled interval, keep_discarded interval)
    RETURNS TABLE (young_from uuid, young_to uuid, shortest bigint, settings text)
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
AS $$
SELECT
    id_at(clock_timestamp() - least(keep_completed, keep_cancelled, keep_discarded, k.shortest)),
    id_at(clock_timestamp() + interval '10 minutes'),
    (extract(epoch FROM least(keep_completed, keep_cancelled, keep_discarded, k.shortest)) * 1000)::bigint,
    k.settings
FROM (
    SELECT
        -- A retention can be as long as an interval, and the difference must stay a valid time.
        min(CASE WHEN s.keep > interval '1000 years' THEN interval '1000 years' ELSE s.keep END) AS shortest,
        coalesce(
            string_agg(
                concat_ws(' ', q.name, 'completed', q.keep_completed, 'cancelled', q.keep_cancelled, 'discarded', q.keep_discarded),
                ', ' ORDER BY q.name
            ),
            ''
        ) AS settings
    FROM queue AS q
    CROSS JOIN LATERAL (SELECT least(q.keep_completed, q.keep_cancelled, q.keep_discarded) AS keep) AS s
    WHERE coalesce(q.keep_completed, q.keep_cancelled, q.keep_discarded) IS NOT NULL
) AS k
$$;
COMMENT ON FUNCTION _prune_bounds(interval, interval, interval) IS
    'The bounds of a round of pruning. young_from, young_to: the range of ids whose jobs are younger than the shortest retention. young_from null: no job is deleted. shortest: the shortest retention in milliseconds. settings: the retention of all queues, in which a caller notices a change. The arguments are the retention of queues that set none. Null: for ever. An id from a client whose clock is ahead counts as old if it is more than ten minutes ahead.';

CREATE FUNCTION _prune_jobs(
    first_id uuid,
    last_id uuid,
    most bigint,
    keep_completed interval,
    keep_cancelled interval,
    keep_discarded interval,
    open_for interval
) RETURNS TABLE (pruned bigint, remaining bigint, reached uuid, next_in bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
-- Ids follow time, so the primary key serves and no index on finalized_at is needed. A job whose claim has a deadline is
-- kept until then: its row is the claim, so deleting it early would end the claim early.
DECLARE
    seen record;
    needed uuid[] := '{}';
    deleted uuid[];
    has_edges CONSTANT boolean := EXISTS (SELECT FROM job_parent);
BEGIN
    WITH scanned AS MATERIALIZED (
        SELECT j.id, j.queue, j.state, j.finalized_at, j.claims, j.unique_until
        FROM job AS j
        WHERE j.id >= first_id AND j.id <= last_id
        ORDER BY j.id
        LIMIT most
    ),
    kept AS (
        SELECT
            w.id, w.finalized_at, w.claims, w.unique_until,
            CASE
                WHEN w.state = 'completed' THEN coalesce(q.keep_completed, _prune_jobs.keep_completed)
                WHEN w.state = 'cancelled' THEN coalesce(q.keep_cancelled, _prune_jobs.keep_cancelled)
                WHEN w.state = 'discarded' THEN coalesce(q.keep_discarded, _prune_jobs.keep_discarded)
            END AS keep
        FROM scanned AS w
        LEFT JOIN queue AS q ON q.name = w.queue
    ),
    aged AS MATERIALIZED (
        SELECT
            k.id,
            CASE
                WHEN k.finalized_at IS NULL THEN clock_timestamp() + open_for
                WHEN k.keep IS NOT NULL THEN
                    -- A retention can be as long as an interval, and no time may be out of range.
                    greatest(k.finalized_at + least(k.keep, interval '1000 years'), CASE WHEN k.claims THEN k.unique_until END)
            END AS goes_at
        FROM kept AS k
    ),
    deletable AS (
        SELECT j.id
        FROM job AS j
        -- An array, not a join: the planner takes a LIMIT of unknown size for a tenth of the table.
        WHERE j.id = ANY (ARRAY(SELECT a.id FROM aged AS a WHERE a.goes_at <= clock_timestamp()))
            -- Asked of the row as it is when it is locked: it may have come back to life meanwhile.
            AND j.finalized_at <= statement_timestamp()
        ORDER BY j.id
        FOR UPDATE OF j SKIP LOCKED
    )
    SELECT
        (SELECT array_agg(d.id) FROM deletable AS d) AS deletable,
        (SELECT count(*) FROM scanned) AS scanned,
        (SELECT w.id FROM scanned AS w ORDER BY w.id OFFSET most - 1) AS reached,
        (SELECT array_agg(a.id) FROM aged AS a) AS ids,
        (SELECT array_agg(a.goes_at) FROM aged AS a) AS goes_at
    INTO seen;
    -- Read after the locks: no insert can add a child of a locked job.
    IF has_edges OR EXISTS (SELECT FROM job_parent) THEN
        needed := _needed_parents(seen.deletable);
    END IF;
    WITH pruned AS (
        DELETE FROM job AS j
        WHERE j.id = ANY (seen.deletable) AND j.id <> ALL (needed)
        RETURNING j.id
    )
    SELECT array_agg(p.id) INTO deleted FROM pruned AS p;
    IF has_edges THEN
        DELETE FROM job_parent AS e WHERE e.child = ANY (deleted);
    END IF;
    pruned := coalesce(cardinality(deleted), 0);
    remaining := seen.scanned - pruned;
    reached := seen.reached;
    next_in := (
        SELECT (extract(epoch FROM least(min(CASE
            WHEN a.id = ANY (needed) THEN clock_timestamp() + open_for
            ELSE a.goes_at
        END), clock_timestamp() + interval '1 day') - clock_timestamp()) * 1000)::bigint
        FROM unnest(seen.ids, seen.goes_at) AS a (id, goes_at)
        WHERE (a.id = ANY (deleted)) IS NOT TRUE
    );
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION _prune_jobs(uuid, uuid, bigint, interval, interval, interval, interval) IS
    'Deletes final jobs past their retention, among the first most jobs of a range of ids. Jobs that waiting children need are kept. keep_completed, keep_cancelled, keep_discarded: the retention of queues that set none. Null: for ever. Always returns one row. pruned, remaining: the number of jobs that were deleted and that stay. reached: the last id that was read. Null: the range was read to its end. next_in: the milliseconds until another job can be deleted. A job that is not final counts as deletable after open_for.';

CREATE FUNCTION _prune_groups() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM queue_group AS g
    WHERE (g.queue, g.group_key) IN (
            SELECT p.queue, p.group_key
            FROM queue_group AS p
            WHERE coalesce(greatest(p.rate_full_at, p.held_until) < clock_timestamp(), true)
            LIMIT 1000
            FOR UPDATE SKIP LOCKED
        )
        -- Asked again of a row that was changed meanwhile.
        AND coalesce(greatest(g.rate_full_at, g.held_until) < clock_timestamp(), true);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;
COMMENT ON FUNCTION _prune_groups() IS
    'Deletes up to a thousand rows of groups whose times have passed. Returns the number of deleted rows. A group without a row is treated as a group whose times have passed. A fetch that has a row locked moves its times ahead.';

CREATE FUNCTION _prune_changes(keep interval) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM change_log AS l
    WHERE l.id IN (
        SELECT f.id
        FROM (SELECT c.id, c.at FROM change_log AS c ORDER BY c.id LIMIT 1000) AS f
        WHERE f.at < clock_timestamp() - keep
    );
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;
COMMENT ON FUNCTION _prune_changes(interval) IS
    'Deletes up to a thousand logged changes that are older than this. Returns the number of deleted rows.';

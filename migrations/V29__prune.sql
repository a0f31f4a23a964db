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
COMMENT ON FUNCTION _prune_bounds IS
    'The bounds of a round of pruning, for this retention of queues that set none (null: for ever). young_from, young_to: the ids of jobs younger than the shortest retention. An id of more than ten minutes ahead counts as old. young_from null: no job is deleted. shortest: the shortest retention in milliseconds. settings: all retentions, in which a caller notices a change.';

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
COMMENT ON FUNCTION _prune_jobs IS
    'Deletes final jobs past their retention among the first most jobs of a range of ids. keep_…: the retention of queues that set none. Null: for ever. Jobs that waiting children need are kept. Always returns one row. reached: the last id that was read. Null: the range was read to its end. next_in: the milliseconds until another job can be deleted, where an open job counts after open_for.';

CREATE FUNCTION _prune_groups() RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
AS $$
WITH pruned AS (
    DELETE FROM queue_group AS g
    WHERE (g.queue, g.group_key) IN (
            SELECT p.queue, p.group_key
            FROM queue_group AS p
            WHERE coalesce(greatest(p.rate_full_at, p.held_until) < clock_timestamp(), true)
            LIMIT 1000
            FOR UPDATE SKIP LOCKED
        )
        -- Asked again of a row that was changed meanwhile.
        AND coalesce(greatest(g.rate_full_at, g.held_until) < clock_timestamp(), true)
    RETURNING g.queue
)
SELECT count(*) FROM pruned AS p
$$;
COMMENT ON FUNCTION _prune_groups IS
    'Deletes up to a thousand rows of groups whose times have passed. Returns the number of deleted rows. A group without a row is treated as a group whose times have passed. A fetch that has a row locked moves its times ahead.';

CREATE FUNCTION _prune_changes(keep interval) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
AS $$
WITH pruned AS (
    DELETE FROM change_log AS l
    WHERE l.id IN (
        SELECT f.id
        FROM (SELECT c.id, c.at FROM change_log AS c ORDER BY c.id LIMIT 1000) AS f
        WHERE f.at < clock_timestamp() - keep
    )
    RETURNING l.id
)
SELECT count(*) FROM pruned AS p
$$;
COMMENT ON FUNCTION _prune_changes IS
    'Deletes up to a thousand logged changes that are older than this. Returns the number of deleted rows.';

-- The quick way for inserts that ignore duplicates. Runs with search_path set to the schema.

CREATE FUNCTION insert_each(
    ids uuid[],
    kinds text[],
    queues text[],
    args jsonb[],
    metas jsonb[],
    priorities smallint[],
    max_attempts smallint[],
    scheduled_ats timestamptz[],
    delays interval[],
    pendings boolean[],
    unique_keys text[],
    unique_states smallint[],
    periods interval[],
    ttls interval[],
    until_starts boolean[],
    discards_on_reentry boolean[],
    all_or_nothing boolean DEFAULT false,
    patience interval DEFAULT NULL,
    folded integer[] DEFAULT NULL
)
RETURNS TABLE (
    input_id uuid,
    outcome text,
    state job_state,
    created_at timestamptz,
    scheduled_at timestamptz,
    unique_until timestamptz,
    holder job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_jobs: one plan, made once, that probes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- now() stands still in the caller's transaction; a claim must not begin, or end, before its time.
    instant CONSTANT timestamptz := clock_timestamp();
    size CONSTANT integer := cardinality(ids);
    has_times CONSTANT boolean := cardinality(scheduled_ats) + cardinality(delays) + cardinality(pendings)
        + cardinality(periods) + cardinality(ttls) > 0;
    settled uuid[] := '{}';
    entered uuid[] := '{}';
    met_places bigint[] := '{}';
    met_holders uuid[] := '{}';
    met record;
BEGIN
    IF patience IS NOT NULL THEN
        PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM patience) * 1000)) || 'ms', true);
    END IF;

    -- The look comes first. It finds duplicates at a tenth of what an insert costs that comes to nothing; it
    -- waits for nobody who is just changing a holder; and a job that does not claim its key in its first
    -- state meets nobody in the index.
    FOR met IN
        SELECT ids[u.place] AS id, u.place, h::job AS holder
        FROM unnest(unique_keys) WITH ORDINALITY AS u (unique_key, place)
        -- LIMIT keeps this a probe for each key, whatever the planner believes.
        CROSS JOIN LATERAL (
            SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
        ) AS h
        WHERE h.unique_until IS NULL OR h.unique_until > instant
    LOOP
        input_id := met.id;
        outcome := 'duplicate';
        holder := met.holder;
        settled := settled || met.id;
        met_places := met_places || met.place;
        met_holders := met_holders || (met.holder).id;
        RETURN NEXT;
    END LOOP;

    IF cardinality(settled) < size THEN
        WITH added AS (
            INSERT INTO job AS j (
                id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at, state,
                unique_key, unique_states, unique_until, until_start, discard_on_reentry
            )
            SELECT
                u.id, coalesce(u.kind, kinds[1]), coalesce(u.queue, queues[1]), u.args, coalesce(u.meta, metas[1]),
                coalesce(u.priority, priorities[1]), coalesce(u.max_attempts, insert_each.max_attempts[1]),
                instant, d.due_at,
                CASE WHEN u.is_pending THEN 'pending' WHEN d.due_at > instant THEN 'scheduled' ELSE 'available' END
                    ::job_state,
                u.unique_key,
                CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, insert_each.unique_states[1]) END,
                coalesce(instant + u.period, greatest(instant, d.due_at) + u.ttl),
                coalesce(u.until_start, until_starts[1]), coalesce(u.discard_on_reentry, discards_on_reentry[1])
            FROM unnest(
                ids, kinds, queues, insert_each.args, metas, priorities, insert_each.max_attempts, scheduled_ats, delays,
                pendings, unique_keys, insert_each.unique_states, periods, ttls, until_starts, discards_on_reentry
            ) AS u (
                id, kind, queue, args, meta, priority, max_attempts, scheduled_at, delay, is_pending,
                unique_key, unique_states, period, ttl, until_start, discard_on_reentry
            )
            CROSS JOIN LATERAL (SELECT coalesce(u.scheduled_at, instant + u.delay, instant)) AS d (due_at)
            WHERE u.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id))
            -- One fixed order for all, so that two batches can never deadlock.
            ORDER BY u.unique_key COLLATE "C"
            ON CONFLICT (unique_key) WHERE claims DO NOTHING
            RETURNING j.id
        )
        SELECT coalesce(array_agg(a.id), '{}') INTO entered FROM added AS a;
        settled := settled || entered;
    END IF;

    -- Those that met somebody, seen after whoever they met has committed. An expired claim takes more
    -- than looking.
    IF cardinality(settled) < size THEN
        FOR met IN
            SELECT u.id, u.place, h::job AS holder
            FROM unnest(ids, unique_keys) WITH ORDINALITY AS u (id, unique_key, place)
            CROSS JOIN LATERAL (
                SELECT c.* FROM job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
            ) AS h
            WHERE u.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id))
                -- The rival may have kept it waiting for longer than the claim lasts.
                AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())
        LOOP
            input_id := met.id;
            outcome := 'duplicate';
            holder := met.holder;
            settled := settled || met.id;
            met_places := met_places || met.place;
            met_holders := met_holders || (met.holder).id;
            RETURN NEXT;
        END LOOP;
        IF cardinality(settled) < size THEN
            IF all_or_nothing THEN
                RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'given back';
            END IF;
            RETURN QUERY
            SELECT i.id, 'open', NULL::job_state, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::job
            FROM unnest(ids) AS i (id)
            WHERE i.id NOT IN (SELECT s.id FROM unnest(settled) AS s (id));
        END IF;
    END IF;

    -- For the audit (migration 11), where one is on.
    IF (cardinality(met_places) > 0 OR folded IS NOT NULL)
        AND EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL)
    THEN
        PERFORM note_duplicates(
            array_agg(coalesce(kinds[u.place], kinds[1])), array_agg(unique_keys[u.place]),
            array_agg(coalesce(m.holder, ids[u.place])),
            array_agg(coalesce(folded[u.place], 0) + (m.holder IS NOT NULL)::integer)
        )
        FROM generate_series(1, size) AS u (place)
        LEFT JOIN unnest(met_places, met_holders) AS m (place, holder) ON m.place = u.place
        WHERE m.holder IS NOT NULL OR (folded[u.place] > 0 AND ids[u.place] IN (SELECT s.id FROM unnest(settled) AS s (id)));
    END IF;

    IF cardinality(entered) > 0 THEN
        IF EXISTS (SELECT FROM runner AS r WHERE r.idle AND r.queues && insert_each.queues) THEN
            PERFORM wake_runners(array_agg(DISTINCT j.queue))
            FROM job AS j
            WHERE j.id = ANY (entered) AND j.ready
            HAVING count(*) > 0;
        END IF;
        IF has_times THEN
            RETURN QUERY
            SELECT j.id, 'inserted', j.state, j.created_at, j.scheduled_at, j.unique_until, NULL::job
            FROM job AS j
            WHERE j.id = ANY (entered);
        ELSE
            RETURN QUERY
            SELECT NULL::uuid, 'inserted', 'available'::job_state, instant, instant, NULL::timestamptz, NULL::job;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION insert_each(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], boolean, interval, integer[]
) IS
    'The quick way of insert_jobs for jobs with new ids and different keys that ignore duplicates, each settled for itself: inserted, duplicate (holder is the job that claims the key), or open (its claim takes more than looking: insert_jobs settles it). An answer without input_id stands for every input that no other names. An array of one stands for all places; an empty one for nulls. With all_or_nothing an open one is an error instead. patience: how long to wait for each key of an open transaction, in a transaction of its own. folded: how many more inputs of the caller each place stands for, which are its duplicates, for the audit.';

CREATE FUNCTION insert_all(
    ids uuid[],
    kinds text[],
    queues text[],
    args jsonb[],
    metas jsonb[],
    priorities smallint[],
    max_attempts smallint[],
    scheduled_ats timestamptz[],
    delays interval[],
    pendings boolean[],
    unique_keys text[],
    unique_states smallint[],
    periods interval[],
    ttls interval[],
    until_starts boolean[],
    discards_on_reentry boolean[],
    folded integer[] DEFAULT NULL
)
RETURNS TABLE (
    input_id uuid,
    outcome text,
    state job_state,
    created_at timestamptz,
    scheduled_at timestamptz,
    unique_until timestamptz,
    holder job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN QUERY
    SELECT e.*
    FROM insert_each(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, all_or_nothing => true, folded => $17
    ) AS e;
EXCEPTION
    -- Given back with every lock, so that insert_jobs can take the keys one by one in their order.
    WHEN SQLSTATE 'UQ001' THEN
        RETURN QUERY
        SELECT
            NULL::uuid, 'open', NULL::job_state, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::job;
END
$$;
COMMENT ON FUNCTION insert_all(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], timestamptz[], interval[], boolean[],
    text[], smallint[], interval[], interval[], boolean[], boolean[], integer[]
) IS
    'insert_each, all or nothing: a single answer, open and without input_id, says that nothing was inserted, because a key takes more than looking.';

-- Waking runners, and looking for duplicates, by plans that are made once; and giving back a batch that was tried
-- without a look. Runs with search_path set to the schema.

CREATE OR REPLACE FUNCTION wake_runners(queues text[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- NOTIFY takes a database-wide lock at commit, so nothing is sent unless a runner sleeps. The runners
-- come first, not the queues: a plan whose cost followed the length of the array would be made anew
-- for each call, which takes longer than all the rest.
DECLARE
    woken integer;
BEGIN
    IF wake_runners.queues IS NULL THEN
        RETURN 0;
    END IF;
    SELECT count(pg_notify(current_schema() || '.job', q.name))
    INTO woken
    FROM (
        SELECT DISTINCT w.name
        FROM runner AS r
        CROSS JOIN LATERAL unnest(r.queues) AS w (name)
        WHERE r.idle AND r.leased_until > clock_timestamp() AND w.name = ANY (wake_runners.queues)
    ) AS q;
    RETURN woken;
END
$$;

-- The look of insert_each by itself. A set of rows, not of composite values, which cost more to take apart than
-- to find.
CREATE FUNCTION held_jobs(unique_keys text[]) RETURNS SETOF job
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    -- As in insert_each: one plan, made once, that probes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
BEGIN
    -- Whoever meets them must tell the audit.
    IF EXISTS (SELECT FROM duplicate_audit AS a WHERE a.stopped_at IS NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT h.*
    FROM unnest(held_jobs.unique_keys) AS u (key)
    -- LIMIT keeps this a probe for each key, whatever the planner believes.
    CROSS JOIN LATERAL (SELECT c.* FROM job AS c WHERE c.unique_key = u.key AND c.claims LIMIT 1) AS h
    WHERE h.unique_until IS NULL OR h.unique_until > clock_timestamp();
END
$$;
COMMENT ON FUNCTION held_jobs(text[]) IS
    'The jobs that claim these unique keys now, one probe a key, without any lock. None while duplicates of any kind are audited: the audit must hear of who meets them.';

CREATE FUNCTION give_back() RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'UQ001',
        MESSAGE = 'given back: a unique key of the batch is taken',
        HINT = 'Nothing is wrong: the client sends the batch once more, by a statement that looks for holders first.';
END
$$;
COMMENT ON FUNCTION give_back() IS
    'Fails with error UQ001, so that nothing of a statement counts: the batch goes once more, by a statement that looks for holders first.';

-- How a fetch counts the running jobs and the tokens of a queue.

-- A rate is GCRA, the generic cell rate algorithm. Its whole state is one time, full_at, when all tokens of the burst are
-- there again. The number of tokens now follows from it.
CREATE FUNCTION _rate_tokens(rate_count integer, rate_period interval, rate_burst integer, full_at timestamptz, at timestamptz)
    RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN rate_count IS NOT NULL THEN greatest(0, floor(
            rate_burst - greatest(0, extract(epoch FROM full_at - at)) * rate_count / extract(epoch FROM rate_period)
        ))::integer
    END;
COMMENT ON FUNCTION _rate_tokens IS 'How many jobs a rate lets start at a time. full_at: when the whole burst is available. Null: no rate.';

CREATE FUNCTION _rate_time(jobs integer, rate_count integer, rate_period interval) RETURNS interval
    LANGUAGE sql IMMUTABLE
    -- In seconds, since days depend on the time zone; rounded up, so that a rate is never exceeded.
    RETURN make_interval(
        secs => ceil(extract(epoch FROM rate_period) * 1000000 * jobs / rate_count)::double precision / 1000000
    );
COMMENT ON FUNCTION _rate_time IS 'The time in which a rate lets this number of jobs start.';

CREATE FUNCTION _next_token_at(rate_count integer, rate_period interval, rate_burst integer, full_at timestamptz)
    RETURNS timestamptz
    LANGUAGE sql STABLE
    RETURN full_at - _rate_time(rate_burst - 1, rate_count, rate_period);
COMMENT ON FUNCTION _next_token_at IS 'When a rate lets the next job start. Null: there is no rate, or no job has started yet.';

CREATE FUNCTION _lock_queue(queue_name text) RETURNS queue
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '200ms'
AS $$
DECLARE
    settings queue;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('queue %s has groups, a limit or a rate, which need READ COMMITTED', queue_name),
            HINT = 'Set default_transaction_isolation of the role that runs jobs to read committed.';
    END IF;
    SELECT q.* INTO settings FROM queue AS q WHERE q.name = queue_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO queue (name) VALUES (queue_name) ON CONFLICT (name) DO NOTHING;
        SELECT q.* INTO settings FROM queue AS q WHERE q.name = queue_name FOR NO KEY UPDATE;
    END IF;
    RETURN settings;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION _lock_queue IS 'Locks the row of a queue until the transaction ends, and returns it. Inserts the row if there is none. Returns null if another transaction has it locked for more than 200 ms. Error 0A000 if the isolation level is not READ COMMITTED.';

CREATE FUNCTION _spend_tokens(queue_names text[], group_keys text[], at timestamptz) RETURNS integer
    LANGUAGE plpgsql VOLATILE
AS $$
-- The fetch has the rows of the queues locked since it counted their tokens, so the tokens are still there. They are
-- spent at the time that the jobs started, or the time between would be given away at each fetch.
BEGIN
    UPDATE queue AS q
    SET rate_full_at = greatest(q.rate_full_at, _spend_tokens.at) + _rate_time(n.jobs, q.rate_count, q.rate_period)
    FROM (
        SELECT s.queue COLLATE "C" AS queue, count(*)::integer AS jobs
        FROM unnest(queue_names) AS s (queue)
        GROUP BY s.queue COLLATE "C"
    ) AS n
    WHERE q.name = n.queue AND q.rate_count IS NOT NULL;
    INSERT INTO queue_group AS g (queue, group_key, rate_full_at)
    SELECT q.name, n.group_key, _spend_tokens.at + _rate_time(n.jobs, q.group_rate_count, q.group_rate_period)
    FROM (
        SELECT s.queue COLLATE "C" AS queue, s.group_key COLLATE "C" AS group_key, count(*)::integer AS jobs
        FROM unnest(queue_names, group_keys) AS s (queue, group_key)
        WHERE s.group_key IS NOT NULL
        GROUP BY s.queue COLLATE "C", s.group_key COLLATE "C"
    ) AS n
    JOIN queue AS q ON q.name = n.queue AND q.group_rate_count IS NOT NULL
    -- The order in which _hold_back locks them.
    ORDER BY n.queue, n.group_key
    ON CONFLICT ON CONSTRAINT queue_group_pkey DO UPDATE
    SET rate_full_at = greatest(g.rate_full_at, _spend_tokens.at)
        + make_interval(secs => extract(epoch FROM excluded.rate_full_at - _spend_tokens.at)::double precision);
    RETURN cardinality(queue_names);
END
$$;
COMMENT ON FUNCTION _spend_tokens IS 'Spends one token of the queue''s rate, and one of the group''s, for each job that started at this time. Each job is given by its queue and its group, or null. Changes nothing where there is no rate. The caller has locked the rows of the queues. Returns the number of jobs.';

CREATE FUNCTION _end_future_times() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
-- A clock that was ahead and has gone back leaves leases, rates and holds that would last for the length of its jump. Each
-- knows when it was set, or how long it can be. Rows that another transaction has locked are left for the next time.
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    -- A statement below also sees what was set after at and committed before its snapshot. That is not from the future.
    future CONSTANT timestamptz := at + interval '1 s';
    changed bigint;
    total bigint := 0;
BEGIN
    UPDATE runner AS r
    SET leased_until = at + (r.leased_until - r.heartbeat_at), heartbeat_at = at
    WHERE r.id = ANY (ARRAY(
        SELECT f.id
        FROM runner AS f
        WHERE f.heartbeat_at > future AND isfinite(f.heartbeat_at) AND isfinite(f.leased_until)
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    UPDATE queue AS q
    SET rate_full_at = CASE WHEN q.rate_full_at > future + f.longest THEN at + f.longest ELSE q.rate_full_at END,
        held_until = CASE WHEN q.held_at > future THEN at + (q.held_until - q.held_at) ELSE q.held_until END,
        held_at = CASE WHEN q.held_at > future THEN at ELSE q.held_at END
    FROM (
        SELECT f.name, _rate_time(f.rate_burst, f.rate_count, f.rate_period) AS longest
        FROM queue AS f
        WHERE f.held_at > future OR f.rate_full_at > future + _rate_time(f.rate_burst, f.rate_count, f.rate_period)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS f
    WHERE q.name = f.name;
    GET DIAGNOSTICS changed = ROW_COUNT;
    total := total + changed;
    WITH rated AS MATERIALIZED (
        -- Once a queue, not once a group.
        SELECT q.name, _rate_time(q.group_rate_burst, q.group_rate_count, q.group_rate_period) AS longest
        FROM queue AS q
        WHERE q.group_rate_count IS NOT NULL
    )
    UPDATE queue_group AS g
    SET rate_full_at = CASE WHEN g.rate_full_at > future + f.longest THEN at + f.longest ELSE g.rate_full_at END,
        held_until = CASE WHEN g.held_at > future THEN at + (g.held_until - g.held_at) ELSE g.held_until END,
        held_at = CASE WHEN g.held_at > future THEN at ELSE g.held_at END
    FROM (
        SELECT g.queue, g.group_key, r.longest
        FROM queue_group AS g
        LEFT JOIN rated AS r ON r.name = g.queue
        WHERE g.held_at > future OR g.rate_full_at > future + r.longest
        FOR NO KEY UPDATE OF g SKIP LOCKED
    ) AS f
    WHERE g.queue = f.queue AND g.group_key = f.group_key;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN total + changed;
END
$$;
COMMENT ON FUNCTION _end_future_times IS 'Corrects times after the server''s clock has gone back. Each lease of a runner, each rate and each hold then ends at most its own length from now. A time set less than a second ahead stays. A time that an operator wrote stays. Returns the number of changed rows. The rescuer calls it.';

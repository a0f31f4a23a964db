-- Fetches of many jobs take turns. Runs with search_path set to the schema.

CREATE FUNCTION take_turn(queue_name text, patience interval) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '1s'
AS $$
-- Fetches that go on at once walk over each other's jobs: they skip those that are locked; and of those that were started
-- since they began they lock the row once more, so that its result waits. The more fetch, the more each walks over. Two at
-- once keep a server busy, and one that begins when another has committed meets nothing of what that took. Only time
-- depends on it.
DECLARE
    key CONSTANT bigint := hashtextextended(format('uniqueue fetch %s %s', current_schema(), queue_name), 0);
    ends_at CONSTANT timestamptz := clock_timestamp() + take_turn.patience;
BEGIN
    -- Who stops in the middle holds nobody up.
    PERFORM set_config('idle_in_transaction_session_timeout', '2s', true);
    LOOP
        IF pg_try_advisory_xact_lock(key) OR pg_try_advisory_xact_lock(key # 1) THEN
            RETURN true;
        END IF;
        IF (clock_timestamp() < ends_at) IS NOT TRUE THEN
            RETURN false;
        END IF;
        -- In the line of one of them, and when that does not move, perhaps of the other.
        BEGIN
            PERFORM pg_advisory_xact_lock(key # (random() < 0.5)::integer);
            RETURN true;
        EXCEPTION
            WHEN lock_not_available THEN NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION take_turn(text, interval) IS
    'Waits for so long until at most one other transaction fetches many jobs of the queue, and keeps a third from it until this one ends. False: the turn did not come in time.';

-- Where the server's queue of notifications is nearly full, nobody is notified. Runs with search_path set to the schema.

CREATE FUNCTION may_notify() RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN pg_notification_queue_usage() < 0.9;
COMMENT ON FUNCTION may_notify() IS
    'Whether the server''s queue of notifications has room. When it is full, every transaction that notifies fails as it commits, so nobody is notified before that: runners look by themselves.';

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
    ) AS q
    -- Asked of each that would be sent, so that an insert that wakes nobody does not ask.
    WHERE may_notify();
    RETURN woken;
END
$$;

CREATE OR REPLACE FUNCTION tell_runners(workers uuid[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- One notification a runner, not a job: a payload has at most 8,000 bytes, and the runner asks which
-- of its jobs are gone anyway. Nothing is sent for runners that are dead.
DECLARE
    told integer;
BEGIN
    SELECT count(pg_notify(current_schema() || '.control', r.id::text))
    INTO told
    FROM runner AS r
    WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp() AND may_notify();
    RETURN told;
END
$$;
COMMENT ON FUNCTION tell_runners(uuid[]) IS
    'Notifies channel <schema>.control, with the runner''s id as payload, for each of these runners that is alive, where the server''s queue of notifications has room: it then asks which of its running jobs were taken away. Returns how many notifications it sent.';

-- Telling runners that their jobs were taken away; limits over all runners. Runs with search_path
-- set to the schema.

CREATE FUNCTION tell_runners(workers uuid[]) RETURNS integer
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
    WHERE r.id = ANY (workers) AND r.leased_until > clock_timestamp();
    RETURN told;
END
$$;
COMMENT ON FUNCTION tell_runners(uuid[]) IS
    'Notifies channel <schema>.control, with the runner''s id as payload, for each of these runners that is alive: it then asks which of its running jobs were taken away. Returns how many notifications it sent.';

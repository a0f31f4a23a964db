-- The quick end of many jobs that are not kept. Runs with search_path set to the schema.
--
-- A DELETE that returns the ids of its rows costs a third more than one that counts them.

CREATE FUNCTION delete_completed(worker uuid, ids uuid[], run integer, runs integer[], patience text)
RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_jobs: one plan, made once, that goes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    gone integer;
BEGIN
    PERFORM set_config('lock_timeout', coalesce(patience, current_setting('lock_timeout')), true);
    DELETE FROM job AS j
    WHERE j.id = ANY (ids)
        -- The fence, in a form that job_running cannot serve, so that the ids alone lead to rows.
        AND (j.state, j.worker, j.run) IS NOT DISTINCT FROM (
            'running', delete_completed.worker,
            coalesce(delete_completed.run, runs[width_bucket(j.id, ids)])
        );
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < cardinality(ids) THEN
        RAISE EXCEPTION USING ERRCODE = 'UQ001', MESSAGE = 'given back';
    END IF;
    RETURN true;
EXCEPTION
    WHEN SQLSTATE 'UQ001' THEN
        RETURN false;
END
$$;
COMMENT ON FUNCTION delete_completed(uuid, uuid[], integer, integer[], text) IS
    'Deletes jobs that completed and are not kept, all or none: false says that one of the results is stale, and nothing was done. All have one run number, or the ids come sorted, with a number each; patience, where it is not null, is how long to wait for a row that somebody has locked.';

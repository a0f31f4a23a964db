-- What was planned while the table was small, and what somebody wrote by hand, stop nothing. Runs with search_path set
-- to the schema.

-- A session plans what a function asks after five calls for good, for the table as it is then: on a small one a scan.
-- The rescuer and the promoter would then read all of a table that has grown for each key, and run out of time.
ALTER FUNCTION take_claims(uuid[]) SET enable_seqscan = off;
ALTER FUNCTION take_claims(uuid[]) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION take_claims(uuid[]) SET jit = off;

-- An available job may be due since '-infinity', to be the first. Infinite times cannot be subtracted from, and cost the
-- views queue_status and stuck_job all their rows. The rest of the two functions stays as it is.
DO $$
DECLARE
    mended record;
    definition text;
BEGIN
    FOR mended IN
        SELECT m.name, m.was, m.becomes
        FROM (VALUES
            (
                'queues(integer, integer)',
                'SELECT min(s.scheduled_at) AS oldest',
                'SELECT min(s.scheduled_at) FILTER (WHERE isfinite(s.scheduled_at)) AS oldest'
            ),
            (
                'stuck_jobs(interval, interval, integer)',
                'statement_timestamp() - s.since',
                'CASE WHEN isfinite(s.since) THEN statement_timestamp() - s.since END'
            )
        ) AS m (name, was, becomes)
    LOOP
        definition := pg_get_functiondef(mended.name::regprocedure);
        IF strpos(definition, mended.was) = 0 THEN
            RAISE EXCEPTION '% is not as the migrations before left it', mended.name;
        END IF;
        EXECUTE replace(definition, mended.was, mended.becomes);
    END LOOP;
END
$$;

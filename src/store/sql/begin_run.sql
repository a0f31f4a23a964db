-- Begins a run of a service that runs seldom, if the last one began long enough ago, by whichever
-- runner. No row: it did not. Where none ever did, the time is noted and nothing more: what was just
-- made needs no such service yet, and its first runner has other things to do.
WITH due AS MATERIALIZED (
    SELECT m.service, m.ran_at
    FROM /* schema */maintenance AS m
    WHERE m.service = $1 AND (m.ran_at IS NULL OR m.ran_at <= clock_timestamp() - $2::interval)
    FOR UPDATE
),
noted AS (
    UPDATE /* schema */maintenance AS m
    SET ran_at = clock_timestamp()
    FROM due AS d
    WHERE m.service = d.service
)
SELECT d.service
FROM due AS d
WHERE d.ran_at IS NOT NULL

-- Begins a run of a service that runs seldom, if the last run of any runner began at least $2 ago, or before the clock went
-- back. No row: it did not.
-- Where there was no run yet, only the time is noted: a new schema needs no such service yet.
WITH due AS MATERIALIZED (
    SELECT m.service, m.ran_at
    FROM /* schema */maintenance AS m
    WHERE m.service = $1 AND (m.ran_at IS NULL OR m.ran_at NOT BETWEEN clock_timestamp() - $2::interval AND clock_timestamp())
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

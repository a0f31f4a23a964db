-- Begins a run of a service that runs seldom, if the last one began long enough ago, by whichever
-- runner. No row: it did not.
UPDATE /* schema */maintenance AS m
SET ran_at = clock_timestamp()
WHERE m.service = $1 AND (m.ran_at IS NULL OR m.ran_at <= clock_timestamp() - $2::interval)

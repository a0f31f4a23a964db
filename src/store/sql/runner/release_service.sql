-- Gives a service's lease up, so that another runner takes it before its term is over.
UPDATE /* schema */maintenance AS m
SET holder = NULL, runner = NULL, leased_until = clock_timestamp()
WHERE m.service = $1 AND m.holder = $2

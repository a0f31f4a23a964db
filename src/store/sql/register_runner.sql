-- Enters a runner, alive for one lease term from now.
INSERT INTO /* schema */runner (id, name, queues, leased_until)
VALUES ($1, $2, $3, clock_timestamp() + $4::interval)

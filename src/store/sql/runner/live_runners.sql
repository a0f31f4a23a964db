-- The names of the live runners.
SELECT r.name
FROM /* schema */runner AS r
WHERE r.leased_until > clock_timestamp()

-- The job that claims a key now. The predicate beside the key is what lets the partial index serve.
SELECT /* columns */j.*
FROM /* schema */job AS j
WHERE j.unique_key = $1
    AND j.claims
    AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())

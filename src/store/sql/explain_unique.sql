-- The holder of a key, and whether a job has the id already. Always one row, without locks. An expired claim does not
-- count: the next insert releases it.
SELECT
    h.id, h.state::text AS state, h.created_at, h.unique_states, h.until_start, h.unique_until,
    clock_timestamp() AS answered_at,
    EXISTS (SELECT FROM /* schema */job AS j WHERE j.id = $2) AS id_is_there
FROM (SELECT $1::text COLLATE "C" AS unique_key) AS c
LEFT JOIN /* schema */job AS h
    ON h.unique_key = c.unique_key
    AND h.claims
    AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp())

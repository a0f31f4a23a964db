-- The jobs that claim the keys of the array $1 now. An expired claim holds nothing.
/* planned anew */
SELECT h.unique_key, h.id
FROM jsonb_array_elements_text($1::jsonb) AS g (unique_key)
CROSS JOIN LATERAL (
    -- A probe for each: a join could be planned to read all claims.
    SELECT j.unique_key, j.id
    FROM /* schema */job AS j
    WHERE j.unique_key = g.unique_key COLLATE "C"
        AND j.claims
        AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
    LIMIT 1
) AS h

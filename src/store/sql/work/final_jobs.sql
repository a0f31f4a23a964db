-- Of these jobs, those that are final, and the ids of those that do not exist.
SELECT
    w.id AS waited_for,
    /* columns */j.*
FROM unnest($1::uuid[]) AS w (id)
-- A probe of the primary key for each id, however large the planner takes the array to be.
LEFT JOIN LATERAL (SELECT f.* FROM /* schema */job AS f WHERE f.id = w.id LIMIT 1) AS j ON true
WHERE j.id IS NULL OR j.finalized_at IS NOT NULL

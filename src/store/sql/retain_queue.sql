-- Sets how long a queue's completed, cancelled and discarded jobs are kept, for the states that $2 marks. A null in $3
-- leaves a state to the runners. The other states keep their settings.
SELECT
FROM (SELECT) AS one
LEFT JOIN LATERAL (
    SELECT q.keep_completed, q.keep_cancelled, q.keep_discarded
    FROM /* schema */queue AS q
    WHERE q.name = $1
    FOR UPDATE
) AS was ON true
CROSS JOIN LATERAL /* schema */retain_queue($1,
    CASE WHEN ($2::boolean[])[1] THEN ($3::interval[])[1] ELSE was.keep_completed END,
    CASE WHEN ($2::boolean[])[2] THEN ($3::interval[])[2] ELSE was.keep_cancelled END,
    CASE WHEN ($2::boolean[])[3] THEN ($3::interval[])[3] ELSE was.keep_discarded END
)

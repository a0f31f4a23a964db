-- Moves a periodic job to the slot $2, and inserts the jobs of $3 slots before it.
WITH moved AS (
    UPDATE /* schema */periodic AS p
    SET next_at = $2
    WHERE p.name = $1
)
SELECT count(*)
FROM (SELECT /* schema */_run_periodic_now($1) FROM generate_series(1, $3)) AS r

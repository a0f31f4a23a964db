-- Deletes the settings of a queue, the holds of its groups, and its totals. Its jobs stay.
WITH groups AS (
    DELETE FROM /* schema */queue_group AS g
    WHERE g.queue = $1
),
totals AS (
    DELETE FROM /* schema */history_total AS t
    WHERE t.queue = $1
)
DELETE FROM /* schema */queue AS q
WHERE q.name = $1

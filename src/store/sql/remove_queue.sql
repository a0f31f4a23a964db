-- Deletes the settings of a queue, and the holds of its groups. Its jobs stay.
WITH groups AS (
    DELETE FROM /* schema */queue_group AS g
    WHERE g.queue = $1
)
DELETE FROM /* schema */queue AS q
WHERE q.name = $1

-- Deletes the settings of a queue. Its jobs stay.
DELETE FROM /* schema */queue AS q
WHERE q.name = $1

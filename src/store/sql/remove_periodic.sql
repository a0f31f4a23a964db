-- Removes a periodic job. Its jobs stay.
DELETE FROM /* schema */periodic AS p
WHERE p.name = $1

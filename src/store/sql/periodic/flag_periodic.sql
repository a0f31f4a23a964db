-- Says in its row why a periodic job cannot be run. No row: it says so already.
UPDATE /* schema */periodic AS p
SET problem = $2
WHERE p.name = $1 AND p.problem IS DISTINCT FROM $2

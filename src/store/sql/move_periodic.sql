-- Moves a periodic job to another slot.
UPDATE /* schema */periodic AS p
SET next_at = $2
WHERE p.name = $1

-- Runs no slot of a periodic job until it is resumed.
UPDATE /* schema */periodic AS p
SET paused_at = coalesce(p.paused_at, clock_timestamp())
WHERE p.name = $1

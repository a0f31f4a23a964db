-- Runs the slots of a periodic job again, from now on: what passed while it was paused is not caught
-- up with.
UPDATE /* schema */periodic AS p
SET paused_at = NULL,
    next_at = CASE WHEN p.paused_at IS NULL THEN p.next_at END,
    starts_at = CASE WHEN p.paused_at IS NULL THEN p.starts_at ELSE clock_timestamp() END
WHERE p.name = $1

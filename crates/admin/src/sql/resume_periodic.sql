-- Resumes a periodic job from now on. Slots that passed while it was paused are not run.
UPDATE /* schema */periodic AS p
SET paused_at = NULL,
    next_at = CASE WHEN p.paused_at IS NULL THEN p.next_at END,
    starts_at = CASE WHEN p.paused_at IS NULL THEN p.starts_at ELSE clock_timestamp() END
WHERE p.name = $1::jsonb ->> 'name'
RETURNING p.name

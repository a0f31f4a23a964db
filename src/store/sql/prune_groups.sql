-- Deletes the rows of groups whose times have passed, up to a thousand. A group without a row is as one whose times have
-- passed. A fetch that has a row locked moves its times ahead.
DELETE FROM /* schema */queue_group AS g
WHERE (g.queue, g.group_key) IN (
        SELECT p.queue, p.group_key
        FROM /* schema */queue_group AS p
        WHERE coalesce(greatest(p.rate_full_at, p.held_until) < clock_timestamp(), true)
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    )
    -- Asked again of a row that was changed meanwhile.
    AND coalesce(greatest(g.rate_full_at, g.held_until) < clock_timestamp(), true)

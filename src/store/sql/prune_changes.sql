-- Deletes logged changes that are older than $1, up to a thousand.
DELETE FROM /* schema */change_log AS l
WHERE l.id IN (
    SELECT f.id
    FROM (SELECT c.id, c.at FROM /* schema */change_log AS c ORDER BY c.id LIMIT 1000) AS f
    WHERE f.at < clock_timestamp() - $1::interval
)

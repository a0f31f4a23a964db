-- The logged changes before one of them, the latest first. $1: of this actor, or null; $2: before this one; $3: at most so
-- many.
SELECT l.id, l.at, l.last_at, l.actor, l.verb, l.subject, l.jobs
FROM /* schema */change_log AS l
WHERE ($1::text IS NULL OR l.actor = $1) AND l.id < $2
ORDER BY l.id DESC
LIMIT $3

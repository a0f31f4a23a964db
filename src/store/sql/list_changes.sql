-- A page of the logged changes, the latest first. $1: only of this actor, null: of all; $2: only those before this id; $3: the
-- most rows.
SELECT l.id, l.at, l.last_at, l.actor, l.verb, l.subject, l.jobs
FROM /* schema */change_log AS l
WHERE ($1::text IS NULL OR l.actor = $1) AND l.id < $2
ORDER BY l.id DESC
LIMIT $3

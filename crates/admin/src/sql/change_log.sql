-- A page of the logged changes, the latest first.
SELECT l.id, l.at, l.last_at, l.actor, l.verb, l.subject, l.jobs
FROM /* schema */change_log AS l
WHERE ($1::jsonb ->> 'actor' IS NULL OR l.actor = $1::jsonb ->> 'actor')
    AND ($1::jsonb ->> 'after' IS NULL OR l.id < ($1::jsonb ->> 'after')::uuid)
ORDER BY l.id DESC
LIMIT ($1::jsonb ->> 'limit')::bigint

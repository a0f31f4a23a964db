-- Which of these jobs another transaction has locked, even if only against deletion. A job that is gone is not locked.
WITH free AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = ANY ($1::uuid[])
    FOR UPDATE SKIP LOCKED
)
SELECT j.id
FROM /* schema */job AS j
WHERE j.id = ANY ($1::uuid[])
    AND NOT EXISTS (SELECT FROM free AS f WHERE f.id = j.id)

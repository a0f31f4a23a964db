-- Releases and cancels jobs that run after others which have ended: at most $5 edges, from where the step before ended ($2,
-- $3, $4). $1 is the releaser, and $6 whether it waits for a notification afterwards. Answers with has_told where the
-- database did not know that, is_awaited where a job still waits for another, and where the next step goes on.
WITH told AS (
    UPDATE /* schema */maintenance AS m
    SET sleeps = $6
    WHERE m.service = 'releaser' AND m.holder = $1 AND m.sleeps <> $6
    RETURNING m.service
)
SELECT
    s.link_from, s.parent_from, s.child_from, greatest(s.linked, s.seen)::bigint AS seen,
    EXISTS (SELECT FROM told) AS has_told,
    EXISTS (SELECT FROM /* schema */job_parent AS e WHERE e.outcome IS NULL) AS is_awaited
FROM /* schema */_release_step($5, $2, $3, $4) AS s

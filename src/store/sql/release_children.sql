-- Releases and cancels children whose parents have ended. Looks at up to $5 edges, from the position of the last step ($2,
-- $3, $4). $1 is the releaser. $6: whether it waits for a notification afterwards. has_told: whether the row of the service
-- was changed to say so. changed: the number of edges that were linked, and of children that were released or cancelled. is_awaited: whether a job still waits for a parent. Also returns the position of the next step.
WITH told AS (
    UPDATE /* schema */maintenance AS m
    SET sleeps = $6
    WHERE m.service = 'releaser' AND m.holder = $1 AND m.sleeps <> $6
    RETURNING m.service
)
SELECT
    s.link_from, s.parent_from, s.child_from, greatest(s.linked, s.seen)::bigint AS seen,
    s.linked + s.released + s.cancelled AS changed,
    EXISTS (SELECT FROM told) AS has_told,
    /* schema */_has_open_edge() AS is_awaited
FROM /* schema */_release_step($5, $2, $3, $4) AS s

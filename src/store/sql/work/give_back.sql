-- Gives back jobs that the runner $1 has and does not know of: the answer to its fetch can be lost on its way, and no
-- lease runs out while the runner lives. The runs in hand ($2) stay. A run that was never started uses up no attempt.
-- Wakes the runners that can work the jobs.
WITH lost AS (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.state = 'running' AND j.worker = $1 AND j.id <> ALL ($2::uuid[])
    FOR NO KEY UPDATE SKIP LOCKED
),
given_back AS (
    UPDATE /* schema */job AS j
    SET state = 'available',
        attempt = greatest(j.attempt - 1, 0),
        -- Not where it had begun before.
        began = nullif(j.began, j.run),
        unique_yielded = j.unique_yielded OR /* schema */_enters_claim(j.unique_states, 'running', 'available')
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM lost AS l))
    RETURNING j.id
)
SELECT count(*) AS given_back, /* schema */_settle(array_agg(g.id)) AS discarded
FROM given_back AS g
HAVING count(*) > 0

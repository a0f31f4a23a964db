-- Discards a job ($1) that no fetch can return, with the reason ($2), if it is still available and no transaction has it
-- locked. Its values stay as they are, so nothing has to be read of them. Only the errors can: where they cannot be read,
-- $3 is false, and the reason takes their place. Answers whether the job is out of the way: discarded, or no longer
-- available.
WITH found AS MATERIALIZED (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id = $1 AND j.state = 'available'
    FOR NO KEY UPDATE SKIP LOCKED
),
discarded AS (
    UPDATE /* schema */job AS j
    SET state = 'discarded',
        finalized_at = clock_timestamp(),
        errors = /* schema */_with_error(CASE WHEN $3 THEN j.errors ELSE '[]' END, j.attempt, clock_timestamp(), $2::text),
        unique_yielded = j.unique_yielded OR /* schema */_enters_claim(j.unique_states, 'available', 'discarded')
    WHERE j.id = ANY (ARRAY(SELECT f.id FROM found AS f))
    RETURNING j.id, j.unique_yielded
)
SELECT
    EXISTS (SELECT FROM discarded)
        OR NOT EXISTS (SELECT FROM /* schema */job AS j WHERE j.id = $1 AND j.state = 'available') AS is_away,
    (SELECT /* schema */_take_claims(array_agg(d.id)) FROM discarded AS d WHERE d.unique_yielded) AS taken

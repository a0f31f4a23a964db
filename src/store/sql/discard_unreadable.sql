-- Discards a job ($1) that no fetch can return, with the reason ($2), if it is still available. Its values stay as they
-- are, so nothing has to be read of them. Only the errors can: where they cannot be read, $3 is false, and the reason
-- takes their place.
WITH discarded AS (
    UPDATE /* schema */job AS j
    SET state = 'discarded',
        finalized_at = clock_timestamp(),
        errors = CASE WHEN $3 THEN j.errors ELSE '[]' END
            || jsonb_build_object('attempt', j.attempt, 'at', clock_timestamp(), 'error', $2::text),
        unique_yielded = j.unique_yielded OR /* schema */enters_claim(j.unique_states, 'available', 'discarded')
    WHERE j.id = $1 AND j.state = 'available'
    RETURNING j.id, j.unique_yielded
)
SELECT
    d.id,
    CASE WHEN d.unique_yielded THEN /* schema */take_claims(ARRAY[d.id]) END AS taken
FROM discarded AS d

-- Takes the next jobs of one queue, if nothing holds it back: no pause, and no limit, of which fetch.sql knows
-- more. For a runner that was told of jobs there: it finds everything cold, and the less there is of a statement
-- before its first row, the sooner a job starts.
WITH next AS MATERIALIZED (
    SELECT j.ctid
    FROM /* schema */job AS j
    WHERE j.queue = ($1::text[])[1] AND j.ready AND j.kind = ANY ($3::text[])
    ORDER BY j.priority DESC, j.scheduled_at, j.id
    LIMIT CASE
        WHEN EXISTS (
            -- A runner that has not noticed yet that its lease ran out would take what was just rescued.
            SELECT FROM /* schema */runner AS r WHERE r.id = $4 AND r.leased_until > clock_timestamp()
        ) AND NOT EXISTS (
            SELECT FROM /* schema */queue AS q
            WHERE q.name = ($1::text[])[1] AND (q.paused_at IS NOT NULL OR q.max_running IS NOT NULL)
        ) THEN ($2::integer[])[1]
        ELSE 0
    END
    FOR UPDATE SKIP LOCKED
),
/* started */
SELECT
    j.id, j.attempt, j.run, j.scheduled_at, j.args, j.unique_key, j.unique_states,
    j.particulars, j.papers, j.attempted_at
FROM started AS j
WHERE NOT j.unique_yielded OR j.id <> ALL (
    -- As in fetch.sql.
    coalesce((SELECT /* schema */take_claims(array_agg(s.id)) FROM started AS s WHERE s.unique_yielded), '{}')
)

-- Takes the next jobs of one queue, if nothing holds it back: no pause, and no limit, of which fetch.sql knows
-- more. For a runner that was told of jobs there. It finds everything cold, and this is half of what there is of
-- fetch.sql before the first row.
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

-- Final jobs that are past their retention by more than $1. Where the queue does not say how long
-- they are kept and a live runner keeps them for longer than is usual, nothing is overdue.
SELECT to_jsonb(o)
FROM (
    SELECT
        t.queue, t.state, t.overdue, t.has_pruner, t.keep::text AS keep,
        extract(epoch FROM t.overdue_by)::double precision AS overdue_by
    FROM /* schema */retention AS t
    WHERE t.overdue > 0
        AND t.overdue_by >= $1::interval
        AND NOT (
            t.is_default
            AND EXISTS (
                SELECT FROM /* schema */runner AS r
                WHERE r.leased_until > clock_timestamp()
                    AND t.keep < CASE t.state
                        WHEN 'completed' THEN r.keep_completed
                        WHEN 'cancelled' THEN r.keep_cancelled
                        ELSE r.keep_discarded
                    END
            )
        )
    ORDER BY t.overdue DESC, t.queue COLLATE "C", t.state COLLATE "C"
    LIMIT 100
) AS o

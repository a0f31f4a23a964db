-- Whether jobs of the queue $1 are deleted as they complete: the queue says so, or a live runner of a queue that does not
-- say itself.
SELECT coalesce(
    coalesce(
        (SELECT q.keep_completed FROM /* schema */queue AS q WHERE q.name = $1),
        (
            SELECT min(r.keep_completed)
            FROM /* schema */runner AS r
            WHERE r.queues @> ARRAY[$1::text] AND r.leased_until > clock_timestamp()
        )
    ) = interval '0',
    false
) AS deletes_completed

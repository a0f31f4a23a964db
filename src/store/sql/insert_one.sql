-- Inserts one job that carries no unique key and may run now, as insert_now inserts many: without arrays and
-- what takes them apart, which for one row is most of what there is to set up.
INSERT INTO /* schema */job AS j (id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at)
VALUES ($1, $3, $4, $2, $5, $6, $7, statement_timestamp(), statement_timestamp())
RETURNING
    j.created_at,
    CASE
        WHEN EXISTS (SELECT FROM /* schema */runner AS r WHERE r.idle AND r.queues @> ARRAY[$4])
            THEN /* schema */wake_runners(ARRAY[$4])
    END AS woken

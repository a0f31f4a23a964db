-- uniqueue asks: which session of the server is this, and does a pooler keep its prepared statements
-- apart from other clients'? One that does gives them names of its own, this one's included.
SELECT
    pg_backend_pid() AS id,
    EXISTS (
        SELECT FROM pg_prepared_statements AS p
        WHERE p.statement COLLATE "C" LIKE '-- uniqueue asks: which session%' AND p.name COLLATE "C" NOT LIKE 'sqlx\_s\_%'
    ) AS keeps_apart

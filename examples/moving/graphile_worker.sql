-- Moves up to 1,000 waiting jobs of graphile-worker into uniqueue, in one transaction. Repeat it until the count is 0.
-- Lower priorities run first there. A queueName runs one job at a time, which is a group of limit 1 here.
WITH waiting AS (
    SELECT j.id FROM graphile_worker._private_jobs AS j
    WHERE j.locked_at IS NULL AND j.attempts < j.max_attempts
    LIMIT 1000 FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM graphile_worker._private_jobs AS j USING waiting AS w WHERE j.id = w.id RETURNING j.*
)
SELECT count(*) FROM uniqueue.insert_jobs((
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'kind', t.identifier, 'args', m.payload, 'scheduled_at', m.run_at, 'priority', -m.priority,
        'max_attempts', m.max_attempts - m.attempts, 'group_key', q.queue_name,
        'group_limit', CASE WHEN q.queue_name IS NOT NULL THEN 1 END,
        'unique_policy', CASE WHEN m.key IS NOT NULL THEN jsonb_build_object('key', m.key, 'scope', 'queued') END
    )), '[]')
    FROM moved AS m
    JOIN graphile_worker._private_tasks AS t ON t.id = m.task_id
    LEFT JOIN graphile_worker._private_job_queues AS q ON q.id = m.job_queue_id
));

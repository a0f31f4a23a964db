-- Moves up to 1,000 waiting jobs of River into uniqueue, in one transaction. Repeat it until the count is 0.
-- Its priorities are 1 to 4, of which 1 runs first. Its keys are hashes of its own, so name the policy that your code used.
WITH waiting AS (
    SELECT j.id FROM river_job AS j
    WHERE j.state IN ('available', 'retryable', 'scheduled')
    LIMIT 1000 FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM river_job AS j USING waiting AS w WHERE j.id = w.id RETURNING j.*
)
SELECT count(*) FROM uniqueue.insert_jobs((
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'kind', m.kind, 'queue', m.queue, 'args', m.args, 'scheduled_at', m.scheduled_at, 'priority', 1 - m.priority,
        'max_attempts', greatest(m.max_attempts - m.attempt, 1),
        'unique_policy', CASE WHEN m.unique_key IS NOT NULL THEN '{"like": "river", "keys": ["args"]}'::jsonb END
    )), '[]') FROM moved AS m
));

-- Moves up to 1,000 waiting jobs of apalis-postgres 1.0 into uniqueue, in one transaction. Repeat it until the count is 0.
-- The kind is the job_type, and the args are what the JSON codec wrote.
WITH waiting AS (
    SELECT j.id FROM apalis.jobs AS j
    WHERE j.status = 'Pending' OR (j.status = 'Failed' AND j.attempts < j.max_attempts)
    LIMIT 1000 FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM apalis.jobs AS j USING waiting AS w WHERE j.id = w.id RETURNING j.*
)
SELECT count(*) FROM uniqueue.insert_jobs((
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'kind', m.job_type, 'args', convert_from(m.job, 'UTF8')::jsonb, 'scheduled_at', m.run_at, 'priority', m.priority,
        'max_attempts', greatest(m.max_attempts - m.attempts, 1)
    )), '[]') FROM moved AS m
));

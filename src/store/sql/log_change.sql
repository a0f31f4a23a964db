-- Logs a change, or adds to its number of jobs.
INSERT INTO /* schema */change_log AS l (id, actor, verb, subject, jobs)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET jobs = l.jobs + excluded.jobs, last_at = statement_timestamp()

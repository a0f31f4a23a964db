-- The failed jobs by kind and code, in the order of the view, which looks at twice as many jobs.
SELECT f.kind, f.code, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_codes(10000) AS f

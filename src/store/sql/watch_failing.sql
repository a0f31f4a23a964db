-- The kinds that fail, the worst first.
SELECT f.kind, f.queues, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_kind AS f

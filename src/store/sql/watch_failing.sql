-- The kinds with failed jobs, in the order of the view.
SELECT f.kind, f.queues, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_kind AS f

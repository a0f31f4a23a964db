-- The failed jobs of a kind by the pattern of their last error.
SELECT to_jsonb(f) FROM /* schema */failing_errors($1) AS f

-- The queue table that an application would write by hand. Keys are unique among jobs that are not finished.
CREATE TABLE /* schema */plain_job (
    id uuid PRIMARY KEY,
    queue text NOT NULL,
    kind text NOT NULL,
    args jsonb NOT NULL,
    state text NOT NULL DEFAULT 'available',
    run_at timestamptz NOT NULL DEFAULT now(),
    key text
);
CREATE UNIQUE INDEX plain_job_key ON /* schema */plain_job (key)
WHERE key IS NOT NULL AND state IN ('available', 'running');
CREATE INDEX plain_job_fetch ON /* schema */plain_job (queue, run_at)
WHERE state = 'available';

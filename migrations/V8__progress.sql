-- How far a job is, as it says itself. Runs with search_path set to the queue's schema.

ALTER TABLE job ADD COLUMN progress jsonb;
COMMENT ON COLUMN job.progress IS
    'How far the job said it was, last: any JSON, often {"done", "total"}. Kept when the job ends or tries again, until it says something new; null: it never said.';

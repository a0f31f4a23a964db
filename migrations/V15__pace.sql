-- How fast runners work, as they say with each heartbeat. Runs with search_path set to the queue's schema.

ALTER TABLE runner
    ADD COLUMN completed bigint NOT NULL DEFAULT 0,
    ADD COLUMN failed bigint NOT NULL DEFAULT 0,
    ADD COLUMN counted_at timestamptz,
    ADD COLUMN lately interval,
    ADD COLUMN lately_completed bigint NOT NULL DEFAULT 0,
    ADD COLUMN lately_failed bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN runner.completed IS 'How many jobs it completed since started_at, as of counted_at.';
COMMENT ON COLUMN runner.failed IS 'How many attempts failed or were discarded by it since started_at, as of counted_at.';
COMMENT ON COLUMN runner.counted_at IS 'Its last heartbeat that told these numbers; null: none yet, or a runner from before version 15.';
COMMENT ON COLUMN runner.lately IS 'How long before counted_at the heartbeat before was, or its start: the time in which lately_completed and lately_failed came about.';
COMMENT ON COLUMN runner.lately_completed IS 'How many jobs it completed in that time.';
COMMENT ON COLUMN runner.lately_failed IS 'How many attempts failed in that time.';

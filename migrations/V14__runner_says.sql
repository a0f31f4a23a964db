-- What a runner says of itself, for those who look for what is wrong. Runs with search_path set to the
-- queue's schema.

ALTER TABLE runner
    ADD COLUMN kinds text[],
    ADD COLUMN heartbeat_at timestamptz,
    ADD COLUMN keep_completed interval,
    ADD COLUMN keep_cancelled interval,
    ADD COLUMN keep_discarded interval;
COMMENT ON COLUMN runner.kinds IS
    'The kinds that it has a worker for. Jobs of other kinds it leaves alone. Null: it did not say, as runners before migration 14 did not.';
COMMENT ON COLUMN runner.heartbeat_at IS
    'When its lease was last taken or extended. It does that four times a lease, so leased_until - heartbeat_at is the lease''s length. Null: it did not say.';
COMMENT ON COLUMN runner.keep_completed IS
    'How long it keeps completed jobs of queues that do not say so themselves; a thousand years: for ever. Null: it did not say.';
COMMENT ON COLUMN runner.keep_cancelled IS 'How long it keeps cancelled jobs.';
COMMENT ON COLUMN runner.keep_discarded IS 'How long it keeps discarded jobs.';

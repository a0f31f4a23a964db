-- Maintenance: who does it, how long jobs are kept, and periodic jobs. Runs with search_path set to the
-- queue's schema.

CREATE TABLE maintenance (
    service text NOT NULL,
    holder uuid,
    runner text,
    leased_until timestamptz NOT NULL,
    ran_at timestamptz,
    CONSTRAINT maintenance_pkey PRIMARY KEY (service)
) WITH (fillfactor = 50);
COMMENT ON TABLE maintenance IS
    'One row a maintenance service (promoter, rescuer, pruner, periodic, reindexer), entered by the first runner that offers it. The lease makes one runner do it, to spare the others the work; two at once would do no harm.';
COMMENT ON COLUMN maintenance.service IS 'The service''s name.';
COMMENT ON COLUMN maintenance.holder IS 'The runner''s process that has the lease; null: none. An id made at its start, which stays when the runner goes on under a new runner.id.';
COMMENT ON COLUMN maintenance.runner IS 'The holder''s name, as in runner.name.';
COMMENT ON COLUMN maintenance.leased_until IS 'Until when nobody else does it, by the database''s clock. Without a holder and far in the future: the service is switched off for all runners.';
COMMENT ON COLUMN maintenance.ran_at IS 'When a service that runs seldom (the reindexer) last began.';
COMMENT ON CONSTRAINT maintenance_pkey ON maintenance IS 'One row a service.';

ALTER TABLE queue
    ADD COLUMN keep_completed interval,
    ADD COLUMN keep_cancelled interval,
    ADD COLUMN keep_discarded interval,
    ADD CONSTRAINT queue_keep_not_negative CHECK (
        keep_completed >= interval '0' AND keep_cancelled >= interval '0' AND keep_discarded >= interval '0'
    );
COMMENT ON COLUMN queue.keep_completed IS 'How long the queue''s completed jobs are kept; 0: they are deleted when they complete; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_cancelled IS 'How long its cancelled jobs are kept; null: as the runners say (a day).';
COMMENT ON COLUMN queue.keep_discarded IS 'How long its discarded jobs are kept; null: as the runners say (a week).';
COMMENT ON CONSTRAINT queue_keep_not_negative ON queue IS 'Nothing is kept for less than no time. For ever is a long time, such as 1000 years.';

CREATE FUNCTION id_at(at timestamptz) RETURNS uuid
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (
        lpad(to_hex(greatest(0, least(281474976710655, extract(epoch FROM at) * 1000))::bigint), 12, '0')
        || '00000000000000000000'
    )::uuid;
COMMENT ON FUNCTION id_at(timestamptz) IS
    'The lowest id that a job made at this time can have: ids follow time, so that job.id < id_at(now() - interval ''1 day'') is an index range.';

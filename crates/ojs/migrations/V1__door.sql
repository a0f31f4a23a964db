-- The state of the door itself. Jobs, queues and periodic jobs are in uniqueue's schema.

CREATE TABLE /* door */cron (
    name text COLLATE "C" PRIMARY KEY,
    document jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE /* door */cron IS 'The registered cron entries. The periodic job of an entry has the name ojs: and the name of the entry.';
COMMENT ON COLUMN /* door */cron.document IS 'The entry as it was registered.';

CREATE TABLE /* door */directive (
    worker text COLLATE "C" PRIMARY KEY,
    state text COLLATE "C" NOT NULL CHECK (state IN ('quiet', 'terminate')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE /* door */directive IS 'The directives that workers get with their next heartbeats. A worker without a row goes on running.';

CREATE TABLE /* door */workflow (
    id uuid PRIMARY KEY,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('chain', 'group', 'batch', 'graph')),
    name text,
    parts jsonb NOT NULL,
    jobs uuid[] NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz
);
COMMENT ON TABLE /* door */workflow IS 'The workflows. Their jobs wait for each other in uniqueue''s schema.';
COMMENT ON COLUMN /* door */workflow.parts IS 'One object for each step: its name, its role, and its place in the column jobs or its own parts.';
COMMENT ON COLUMN /* door */workflow.jobs IS 'The ids of its jobs. One job can stand for several steps.';
COMMENT ON COLUMN /* door */workflow.state IS 'The state that was noted last. The state of a running workflow is computed from its jobs.';
CREATE INDEX workflow_running ON /* door */workflow (id) WHERE state = 'running';

-- The job table, what guards it, and the rows that runners and queues need.
-- Runs with search_path set to the queue's schema, so that no name here is qualified.

CREATE TYPE job_state AS ENUM (
    'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
);
COMMENT ON TYPE job_state IS
    'Where a job is in its life. completed, cancelled and discarded are final.';

-- One bit a state, in alphabetical order. A searched CASE over the enum is immutable, so it may
-- stand in a generated column; a cast of the enum to text is not.
CREATE FUNCTION state_bit(state job_state) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE
        WHEN state = 'available' THEN 1
        WHEN state = 'cancelled' THEN 2
        WHEN state = 'completed' THEN 4
        WHEN state = 'discarded' THEN 8
        WHEN state = 'pending' THEN 16
        WHEN state = 'retryable' THEN 32
        WHEN state = 'running' THEN 64
        WHEN state = 'scheduled' THEN 128
    END;
COMMENT ON FUNCTION state_bit(job_state) IS
    'The bit of a state in job.unique_states: available 1, cancelled 2, completed 4, discarded 8, pending 16, retryable 32, running 64, scheduled 128.';

CREATE FUNCTION state_names(unique_states smallint) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN array_remove(ARRAY[
        CASE WHEN unique_states & 1 <> 0 THEN 'available' END,
        CASE WHEN unique_states & 2 <> 0 THEN 'cancelled' END,
        CASE WHEN unique_states & 4 <> 0 THEN 'completed' END,
        CASE WHEN unique_states & 8 <> 0 THEN 'discarded' END,
        CASE WHEN unique_states & 16 <> 0 THEN 'pending' END,
        CASE WHEN unique_states & 32 <> 0 THEN 'retryable' END,
        CASE WHEN unique_states & 64 <> 0 THEN 'running' END,
        CASE WHEN unique_states & 128 <> 0 THEN 'scheduled' END
    ], NULL);
COMMENT ON FUNCTION state_names(smallint) IS
    'The states of a job.unique_states mask in words.';

CREATE FUNCTION enters_claim(unique_states smallint, old job_state, new job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN unique_states IS NOT NULL
        AND unique_states & state_bit(new) <> 0
        AND unique_states & state_bit(old) = 0;
COMMENT ON FUNCTION enters_claim(smallint, job_state, job_state) IS
    'Whether a change of state brings a job back into its unique states. Such a job first yields its claim, then takes it back with take_claims where the key is free.';

CREATE TABLE job (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    scheduled_at timestamptz NOT NULL DEFAULT now(),
    attempted_at timestamptz,
    finalized_at timestamptz,
    unique_until timestamptz,
    worker uuid,
    replaced_by uuid,
    state job_state NOT NULL DEFAULT 'available',
    run integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 0,
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL DEFAULT 25,
    unique_states smallint,
    until_start boolean NOT NULL DEFAULT false,
    discard_on_reentry boolean NOT NULL DEFAULT false,
    unique_yielded boolean NOT NULL DEFAULT false,
    ready boolean NOT NULL GENERATED ALWAYS AS (state = 'available') STORED,
    waiting boolean NOT NULL GENERATED ALWAYS AS (state = 'scheduled' OR state = 'retryable') STORED,
    claims boolean NOT NULL GENERATED ALWAYS AS (
        unique_key IS NOT NULL
        AND NOT unique_yielded
        AND unique_states & CASE
            WHEN state = 'available' THEN 1
            WHEN state = 'cancelled' THEN 2
            WHEN state = 'completed' THEN 4
            WHEN state = 'discarded' THEN 8
            WHEN state = 'pending' THEN 16
            WHEN state = 'retryable' THEN 32
            WHEN state = 'running' THEN 64
            WHEN state = 'scheduled' THEN 128
        END <> 0
    ) STORED,
    kind text NOT NULL,
    queue text NOT NULL DEFAULT 'default',
    unique_key text COLLATE "C",
    args jsonb NOT NULL DEFAULT '{}',
    meta jsonb NOT NULL DEFAULT '{}',
    errors jsonb NOT NULL DEFAULT '[]',
    output jsonb,
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_kind_length CHECK (octet_length(kind) BETWEEN 1 AND 128),
    CONSTRAINT job_queue_length CHECK (octet_length(queue) BETWEEN 1 AND 128),
    CONSTRAINT job_unique_key_length CHECK (octet_length(unique_key) BETWEEN 1 AND 512),
    CONSTRAINT job_unique_states_range CHECK (unique_states BETWEEN 0 AND 255),
    CONSTRAINT job_unique_states_with_key CHECK ((unique_key IS NULL) = (unique_states IS NULL)),
    CONSTRAINT job_attempt_range CHECK (attempt >= 0),
    CONSTRAINT job_max_attempts_range CHECK (max_attempts >= 1),
    CONSTRAINT job_finalized_when_final CHECK (
        (finalized_at IS NOT NULL) = (state = 'cancelled' OR state = 'completed' OR state = 'discarded')
    ),
    CONSTRAINT job_worker_when_running CHECK (state <> 'running' OR worker IS NOT NULL),
    CONSTRAINT job_meta_object CHECK (jsonb_typeof(meta) = 'object')
);
COMMENT ON TABLE job IS 'One row a job. The rules of uniqueness are in docs/unique.md.';
COMMENT ON COLUMN job.id IS 'UUIDv7, made by the client: ids follow time, and an insert sent twice is recognised.';
COMMENT ON COLUMN job.created_at IS 'When the job was inserted, by the database''s clock.';
COMMENT ON COLUMN job.scheduled_at IS 'When the job may run, at the earliest. Decides the order within a priority.';
COMMENT ON COLUMN job.attempted_at IS 'When the latest attempt started.';
COMMENT ON COLUMN job.finalized_at IS 'When the job was completed, cancelled or discarded; null before.';
COMMENT ON COLUMN job.unique_until IS 'When the claim on unique_key expires; null: only with the state.';
COMMENT ON COLUMN job.worker IS 'The runner that has, or last had, the job: runner.id.';
COMMENT ON COLUMN job.replaced_by IS 'The job that took this one''s place (on_conflict replace).';
COMMENT ON COLUMN job.state IS 'Where the job is in its life.';
COMMENT ON COLUMN job.run IS 'The run''s number: grows with every fetch, never comes back. Results count only for the run that made them.';
COMMENT ON COLUMN job.priority IS 'Higher runs first. Default 0.';
COMMENT ON COLUMN job.attempt IS 'How often the job was started. Counted at fetch, so that a crash uses one up.';
COMMENT ON COLUMN job.max_attempts IS 'Attempts before the job is discarded. Default 25.';
COMMENT ON COLUMN job.unique_states IS 'Bitmask of the states in which the job claims its key (state_bit, state_names); 0: given up for good.';
COMMENT ON COLUMN job.until_start IS 'Whether the claim is given up for good when a worker fetches the job.';
COMMENT ON COLUMN job.discard_on_reentry IS 'Whether the job is discarded, rather than going on without a claim, when it comes back to its unique states and another job holds the key.';
COMMENT ON COLUMN job.unique_yielded IS 'Whether the job came back to its unique states while another job held the key, and so goes on without a claim.';
COMMENT ON COLUMN job.ready IS 'Generated: whether a worker may fetch the job.';
COMMENT ON COLUMN job.waiting IS 'Generated: whether the job waits for its scheduled_at.';
COMMENT ON COLUMN job.claims IS 'Generated: whether the job claims its unique key now (until unique_until). At most one row a key.';
COMMENT ON COLUMN job.kind IS 'The job''s type name.';
COMMENT ON COLUMN job.queue IS 'The queue it waits in.';
COMMENT ON COLUMN job.unique_key IS 'What two jobs share when they are the same; null: never a duplicate.';
COMMENT ON COLUMN job.args IS 'The job''s payload.';
COMMENT ON COLUMN job.meta IS 'A JSON object that travels along: tenant, trace, cause.';
COMMENT ON COLUMN job.errors IS 'Array of {"attempt", "at", "error"}, oldest first.';
COMMENT ON COLUMN job.output IS 'What the job returned when it completed, if anything.';
COMMENT ON CONSTRAINT job_pkey ON job IS 'Ids are unique.';
COMMENT ON CONSTRAINT job_kind_length ON job IS 'A kind is 1 to 128 bytes.';
COMMENT ON CONSTRAINT job_queue_length ON job IS 'A queue name is 1 to 128 bytes.';
COMMENT ON CONSTRAINT job_unique_key_length ON job IS 'A unique key is 1 to 512 bytes.';
COMMENT ON CONSTRAINT job_unique_states_range ON job IS 'Eight states, eight bits.';
COMMENT ON CONSTRAINT job_unique_states_with_key ON job IS 'A key and its states come together.';
COMMENT ON CONSTRAINT job_attempt_range ON job IS 'Attempts count up from 0.';
COMMENT ON CONSTRAINT job_max_attempts_range ON job IS 'At least one attempt.';
COMMENT ON CONSTRAINT job_finalized_when_final ON job IS 'A job is final exactly when it says since when.';
COMMENT ON CONSTRAINT job_worker_when_running ON job IS 'A running job names its runner.';
COMMENT ON CONSTRAINT job_meta_object ON job IS 'Meta is a JSON object.';

CREATE UNIQUE INDEX job_unique_key ON job (unique_key) WHERE claims;
COMMENT ON INDEX job_unique_key IS 'At most one job claims a key. The index knows each row''s own unique states through job.claims.';

CREATE INDEX job_fetch ON job (queue, priority DESC, scheduled_at, id) WHERE ready;
COMMENT ON INDEX job_fetch IS 'What workers fetch, in the order they fetch it.';

CREATE INDEX job_waiting ON job (scheduled_at) WHERE waiting;
COMMENT ON INDEX job_waiting IS 'Scheduled and retryable jobs by the time they are due.';

CREATE INDEX job_running ON job (worker) WHERE state = 'running';
COMMENT ON INDEX job_running IS 'Running jobs by runner, for rescue and for looking.';

CREATE TABLE runner (
    id uuid NOT NULL,
    name text NOT NULL,
    queues text[] NOT NULL,
    idle boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz NOT NULL,
    CONSTRAINT runner_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
COMMENT ON TABLE runner IS 'One row a live runner. A runner whose lease ran out is dead: its jobs are rescued.';
COMMENT ON COLUMN runner.id IS 'The runner, as in job.worker.';
COMMENT ON COLUMN runner.name IS 'For people: uniqueue and the process id, unless the application says otherwise.';
COMMENT ON COLUMN runner.queues IS 'The queues it works.';
COMMENT ON COLUMN runner.idle IS 'Whether it listens for wake-ups. An insert notifies only when an idle runner wants its queue, since NOTIFY serialises commits.';
COMMENT ON COLUMN runner.started_at IS 'When it started.';
COMMENT ON COLUMN runner.leased_until IS 'Until when it counts as alive, by the database''s clock. Its heartbeat extends this.';
COMMENT ON CONSTRAINT runner_pkey ON runner IS 'One row a runner.';

CREATE TABLE queue (
    name text NOT NULL,
    paused_at timestamptz,
    CONSTRAINT queue_pkey PRIMARY KEY (name),
    CONSTRAINT queue_name_length CHECK (octet_length(name) BETWEEN 1 AND 128)
);
COMMENT ON TABLE queue IS 'Settings of a queue. A queue needs no row to be used.';
COMMENT ON COLUMN queue.name IS 'The queue''s name, as in job.queue.';
COMMENT ON COLUMN queue.paused_at IS 'Since when nothing is fetched from the queue; null: it is not paused.';
COMMENT ON CONSTRAINT queue_pkey ON queue IS 'One row a queue.';
COMMENT ON CONSTRAINT queue_name_length ON queue IS 'A queue name is 1 to 128 bytes.';

CREATE FUNCTION wake_runners(queues text[]) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
-- NOTIFY takes a database-wide lock at commit, so nothing is sent unless a runner sleeps.
DECLARE
    woken integer;
BEGIN
    SELECT count(pg_notify(current_schema() || '.job', q.name))
    INTO woken
    FROM (SELECT DISTINCT unnest(queues)) AS q (name)
    WHERE EXISTS (
        SELECT FROM runner AS r
        WHERE r.idle AND q.name = ANY (r.queues) AND r.leased_until > clock_timestamp()
    );
    RETURN woken;
END
$$;
COMMENT ON FUNCTION wake_runners(text[]) IS
    'Notifies channel <schema>.job, with the queue as payload, for each queue that an idle runner wants. Returns how many notifications it sent.';

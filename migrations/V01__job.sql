-- The job table: what a job is, and the index that makes its unique key unique.
-- Runs with search_path set to the queue's schema, as every file here does, so no name is qualified.
-- A function whose name begins with an underscore is not for users: it may change with any version.

CREATE TYPE job_state AS ENUM (
    'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
);
COMMENT ON TYPE job_state IS
    'Where a job is in its life. completed, cancelled and discarded are final.';

-- What one column may hold is said by its type. PostgreSQL parses the CHECK constraints of a table again for each
-- statement that writes to it, but those of a domain once for each session.
CREATE DOMAIN short_name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 128);
COMMENT ON DOMAIN short_name IS 'The name of a kind, a queue or a periodic job: 1 to 128 bytes, compared byte by byte.';

CREATE DOMAIN key_text AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 512);
COMMENT ON DOMAIN key_text IS 'A unique key, or the key of a group: 1 to 512 bytes, compared byte by byte.';

CREATE DOMAIN group_limit AS smallint CHECK (VALUE >= 1);
COMMENT ON DOMAIN group_limit IS 'How many jobs of a group may run at once: 1 to 32767.';

CREATE DOMAIN state_mask AS smallint CHECK (VALUE BETWEEN 0 AND 255);
COMMENT ON DOMAIN state_mask IS 'A set of states, one bit each (_state_bit, state_names).';

CREATE DOMAIN attempt_count AS smallint CHECK (VALUE >= 0);
COMMENT ON DOMAIN attempt_count IS 'A number of attempts: 0 to 32767.';

CREATE DOMAIN attempt_limit AS smallint CHECK (VALUE >= 1);
COMMENT ON DOMAIN attempt_limit IS 'How many attempts a job has: 1 to 32767.';

CREATE DOMAIN jsonb_object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');
COMMENT ON DOMAIN jsonb_object IS 'A JSON object.';

-- The states are in alphabetical order, so the bit is 1 shifted by the state's place. width_bucket finds the place
-- among the states after the first. It is immutable, as a generated column needs; a cast of an enum to text is not.
CREATE FUNCTION _state_bit(state job_state) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN 1 << width_bucket(
        state, '{cancelled, completed, discarded, pending, retryable, running, scheduled}'::job_state[]
    );
COMMENT ON FUNCTION _state_bit(job_state) IS
    'The bit of a state in job.unique_states: available 1, cancelled 2, completed 4, discarded 8, pending 16, retryable 32, running 64, scheduled 128.';

CREATE FUNCTION state_names(unique_states smallint) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN array_remove(ARRAY[
        CASE WHEN unique_states & 16 <> 0 THEN 'pending' END,
        CASE WHEN unique_states & 128 <> 0 THEN 'scheduled' END,
        CASE WHEN unique_states & 1 <> 0 THEN 'available' END,
        CASE WHEN unique_states & 64 <> 0 THEN 'running' END,
        CASE WHEN unique_states & 32 <> 0 THEN 'retryable' END,
        CASE WHEN unique_states & 4 <> 0 THEN 'completed' END,
        CASE WHEN unique_states & 2 <> 0 THEN 'cancelled' END,
        CASE WHEN unique_states & 8 <> 0 THEN 'discarded' END
    ], NULL);
COMMENT ON FUNCTION state_names(smallint) IS
    'The states of a job.unique_states mask in words, in the order of a job''s life.';

CREATE FUNCTION _enters_claim(unique_states smallint, old job_state, new job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN unique_states IS NOT NULL
        AND unique_states & _state_bit(new) <> 0
        AND unique_states & _state_bit(old) = 0;
COMMENT ON FUNCTION _enters_claim(smallint, job_state, job_state) IS
    'Whether a change of state brings a job back into its unique states. Such a job first yields its claim, then takes it back with _take_claims where the key is free.';

CREATE FUNCTION _with_error(errors jsonb, attempt integer, at timestamptz, error text) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
            -- Changed by hand.
            WHEN jsonb_typeof(errors) <> 'array' THEN jsonb_build_array(errors)
            WHEN jsonb_array_length(errors) < 50 THEN errors
            ELSE jsonb_path_query_array(errors, '$[last - 48 to last]')
        END
        || jsonb_build_object('attempt', attempt, 'at', at, 'error', left(error, 16500));
COMMENT ON FUNCTION _with_error(jsonb, integer, timestamptz, text) IS
    'The errors of a job with one more. The newest 50 are kept, and of an error its first 16,500 characters.';

CREATE FUNCTION id_at(at timestamptz) RETURNS uuid
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (
        lpad(to_hex(greatest(0, least(281474976710655, extract(epoch FROM at) * 1000))::bigint), 12, '0')
        || '00000000000000000000'
    )::uuid;
COMMENT ON FUNCTION id_at(timestamptz) IS
    'The lowest id that a job made at this time can have. Ids follow time, so job.id < id_at(now() - interval ''1 day'') is an index range.';

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
    attempt attempt_count NOT NULL DEFAULT 0,
    max_attempts attempt_limit NOT NULL DEFAULT 25,
    crashes attempt_count NOT NULL DEFAULT 0,
    unique_states state_mask,
    until_start boolean NOT NULL DEFAULT false,
    discard_on_reentry boolean NOT NULL DEFAULT false,
    unique_yielded boolean NOT NULL DEFAULT false,
    -- The test of _state_bit, written out: PostgreSQL would look the function up for each statement.
    claims boolean NOT NULL GENERATED ALWAYS AS (
        unique_key IS NOT NULL
        AND NOT unique_yielded
        AND unique_states & (1 << width_bucket(
            state, '{cancelled, completed, discarded, pending, retryable, running, scheduled}'::job_state[]
        )) <> 0
    ) STORED,
    kind short_name NOT NULL,
    queue short_name NOT NULL DEFAULT 'default',
    unique_key key_text,
    args jsonb NOT NULL DEFAULT '{}',
    meta jsonb_object NOT NULL DEFAULT '{}',
    errors jsonb NOT NULL DEFAULT '[]',
    output jsonb,
    progress jsonb,
    -- Last, where a null takes no space.
    updates integer,
    updated_at timestamptz,
    updated_by uuid,
    group_key key_text,
    group_limit group_limit,
    in_order boolean,
    began integer,
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_state_fits CHECK (
        (finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded'))
        AND (worker IS NOT NULL OR state <> 'running')
    )
);
COMMENT ON TABLE job IS 'One row a job. The rules of uniqueness are in docs/learn/unique.md.';
COMMENT ON COLUMN job.id IS 'UUIDv7, made by the client: ids follow time, and an insert sent twice is recognised.';
COMMENT ON COLUMN job.created_at IS 'When the job was inserted, by the database''s clock.';
COMMENT ON COLUMN job.scheduled_at IS 'When the job may run, at the earliest. Decides the order within a priority.';
COMMENT ON COLUMN job.attempted_at IS 'When the latest attempt started.';
COMMENT ON COLUMN job.finalized_at IS 'When the job was completed, cancelled or discarded; null before.';
COMMENT ON COLUMN job.unique_until IS 'When the claim on unique_key expires; null: only with the state.';
COMMENT ON COLUMN job.worker IS 'The runner that has, or last had, the job: runner.id.';
COMMENT ON COLUMN job.replaced_by IS 'The job that took this one''s place (on_conflict replace).';
COMMENT ON COLUMN job.state IS 'Where the job is in its life.';
COMMENT ON COLUMN job.run IS 'The number of the latest run. Each fetch raises it, and a result counts only for the run that made it.';
COMMENT ON COLUMN job.priority IS 'Higher runs first. Default 0.';
COMMENT ON COLUMN job.attempt IS 'How often the job was started. Counted at fetch. The first crash of a runner gives it back.';
COMMENT ON COLUMN job.max_attempts IS 'Attempts before the job is discarded. Default 25.';
COMMENT ON COLUMN job.crashes IS 'How many times in a row the job''s runner died while it had the job. Above 0 the job is a suspect, which runners fetch few at a time.';
COMMENT ON COLUMN job.unique_states IS 'Bitmask of the states in which the job claims its key (_state_bit, state_names); 0: given up for good.';
COMMENT ON COLUMN job.until_start IS 'Whether the claim is given up for good when a worker fetches the job.';
COMMENT ON COLUMN job.discard_on_reentry IS 'Whether the job is discarded, rather than going on without a claim, when it comes back to its unique states and another job holds the key.';
COMMENT ON COLUMN job.unique_yielded IS 'Whether the job came back to its unique states while another job held the key, and so goes on without a claim.';
COMMENT ON COLUMN job.claims IS 'Generated: whether the job claims its unique key now (until unique_until). At most one row a key. A key needs unique_states: without them this is null, which is refused.';
COMMENT ON COLUMN job.kind IS 'The job''s type name.';
COMMENT ON COLUMN job.queue IS 'The queue it waits in.';
COMMENT ON COLUMN job.unique_key IS 'What two jobs share when they are the same; null: never a duplicate.';
COMMENT ON COLUMN job.args IS 'The job''s payload.';
COMMENT ON COLUMN job.meta IS 'A JSON object that travels along: tenant, trace, cause.';
COMMENT ON COLUMN job.errors IS 'Array of {"attempt", "at", "error"}, oldest first. The newest 50 are kept.';
COMMENT ON COLUMN job.output IS 'What the job returned when it completed, if anything.';
COMMENT ON COLUMN job.progress IS
    'How far the job said it was, last: any JSON, often {"done", "total"}. Kept when the job ends or tries again, until it says something new; null: it never said.';
COMMENT ON COLUMN job.updates IS 'How many duplicates changed the job in place (on_conflict update); null: none.';
COMMENT ON COLUMN job.updated_at IS 'When the latest of them did.';
COMMENT ON COLUMN job.updated_by IS 'The id of the insert that did, so that the same insert sent again changes nothing.';
COMMENT ON COLUMN job.group_key IS 'The group that the job belongs to within its queue; null: none.';
COMMENT ON COLUMN job.group_limit IS 'The job starts only while fewer jobs of its group run than this; null: no limit of its own.';
COMMENT ON COLUMN job.in_order IS 'Whether the job runs in its group''s order: one at a time, and none overtakes one that began. null: no.';
COMMENT ON COLUMN job.began IS 'The run in which a job that is in_order began, from when on it stays first in its group until it is final; 0: it inherited the place of one that began; null: it has not begun.';
COMMENT ON CONSTRAINT job_pkey ON job IS 'Ids are unique.';
COMMENT ON CONSTRAINT job_state_fits ON job IS 'A job is final exactly when it says since when, and a running job names its runner.';

CREATE UNIQUE INDEX job_unique_key ON job (unique_key) WHERE claims;
COMMENT ON INDEX job_unique_key IS 'At most one job claims a key. The index knows each row''s own unique states through job.claims.';

CREATE INDEX job_fetch ON job (queue, priority DESC, scheduled_at, id) WHERE group_key IS NULL AND state = 'available';
COMMENT ON INDEX job_fetch IS 'What workers fetch, in the order they fetch it: the jobs without a group.';

CREATE INDEX job_group ON job (queue, priority DESC, group_key, scheduled_at, id)
    WHERE group_key IS NOT NULL AND state = 'available';
COMMENT ON INDEX job_group IS 'Available jobs of groups. A fetch visits the first of each group.';

CREATE INDEX job_group_held ON job (queue, group_key)
    WHERE group_key IS NOT NULL AND finalized_at IS NULL AND (state = 'running' OR began IS NOT NULL);
COMMENT ON INDEX job_group_held IS
    'What takes the places of groups: their running jobs, and jobs in order that began and are not final.';

CREATE INDEX job_suspect ON job (queue, crashes, priority DESC, scheduled_at, id)
    WHERE crashes > 0 AND group_key IS NULL AND state = 'available';
COMMENT ON INDEX job_suspect IS 'Suspects to fetch that have no group, those with the fewest crashes first.';

CREATE INDEX job_waiting ON job (scheduled_at) WHERE state IN ('scheduled', 'retryable');
COMMENT ON INDEX job_waiting IS 'Scheduled and retryable jobs by the time they are due.';

CREATE INDEX job_running ON job (queue, worker) WHERE state = 'running';
COMMENT ON INDEX job_running IS 'Running jobs by queue and runner: for limits, rescue and looking.';

CREATE INDEX job_discarded ON job (id) WHERE state = 'discarded';
COMMENT ON INDEX job_discarded IS 'Discarded jobs, the latest last. A success leaves it alone.';

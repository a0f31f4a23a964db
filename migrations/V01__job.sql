-- The job table: what a job is, and the index that makes its unique key unique.
-- Runs with search_path set to the queue's schema, as every file here does, so no name is qualified.
-- A function whose name begins with an underscore is not for users: it may change with any version. Where only functions of the
-- schema call it, it sets no search_path, since its callers have set it. One that takes a row of job has a text as its body: a
-- body that PostgreSQL parses would keep an application from adding a column to the table.

CREATE TYPE job_state AS ENUM (
    'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
);
COMMENT ON TYPE job_state IS 'The state of a job. completed, cancelled and discarded are final.';

-- What one column may hold is said by its type. PostgreSQL parses the CHECK constraints of a table again for each
-- statement that writes to it, but those of a domain once for each session.
CREATE DOMAIN short_name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 128);
COMMENT ON DOMAIN short_name IS 'The name of a kind, a queue or a periodic job: 1 to 128 bytes, compared byte by byte.';

CREATE DOMAIN key_text AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 512);
COMMENT ON DOMAIN key_text IS 'A unique key, or the key of a group: 1 to 512 bytes, compared byte by byte.';

CREATE DOMAIN group_limit AS smallint CHECK (VALUE >= 1);
COMMENT ON DOMAIN group_limit IS 'The number of jobs of a group that may run at the same time: 1 to 32767.';

CREATE DOMAIN state_mask AS smallint CHECK (VALUE BETWEEN 0 AND 255);
COMMENT ON DOMAIN state_mask IS 'A set of states, with one bit for each state. See _state_bit and state_names.';

CREATE DOMAIN attempt_count AS smallint CHECK (VALUE >= 0);
COMMENT ON DOMAIN attempt_count IS 'A number of attempts: 0 to 32767.';

CREATE DOMAIN attempt_limit AS smallint CHECK (VALUE >= 1);
COMMENT ON DOMAIN attempt_limit IS 'The number of attempts that a job has: 1 to 32767.';

CREATE DOMAIN jsonb_object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');
COMMENT ON DOMAIN jsonb_object IS 'A JSON object.';

-- The states are in alphabetical order, so the bit is 1 shifted by the state's place. width_bucket finds the place
-- among the states after the first. It is immutable, as a generated column needs; a cast of an enum to text is not.
CREATE FUNCTION _state_bit(state job_state) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN 1 << width_bucket(
        state, '{cancelled, completed, discarded, pending, retryable, running, scheduled}'::job_state[]
    );
COMMENT ON FUNCTION _state_bit IS 'The bit of a state in job.unique_states: 2 to the power of its position in job_state, from 0. available is 1, scheduled is 128.';

CREATE FUNCTION state_names(unique_states smallint) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ARRAY(
        SELECT s.state::text
        FROM unnest('{pending, scheduled, available, running, retryable, completed, cancelled, discarded}'::job_state[])
            WITH ORDINALITY AS s (state, place)
        WHERE unique_states & _state_bit(s.state) <> 0
        ORDER BY s.place
    );
COMMENT ON FUNCTION state_names IS 'The names of the states in a job.unique_states mask, in the order of a job''s life.';

CREATE FUNCTION _enters_claim(unique_states smallint, old job_state, new job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN unique_states IS NOT NULL
        AND unique_states & _state_bit(new) <> 0
        AND unique_states & _state_bit(old) = 0;
COMMENT ON FUNCTION _enters_claim IS 'Whether a change of state brings a job back into its unique states. _take_claims then gives it its claim, if the key is free.';

CREATE FUNCTION _with_error(
    errors jsonb, attempt integer, at timestamptz, error text, details jsonb DEFAULT NULL
) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
            -- Changed by hand.
            WHEN jsonb_typeof(errors) <> 'array' THEN jsonb_build_array(errors)
            WHEN jsonb_array_length(errors) < 50 THEN errors
            ELSE jsonb_path_query_array(errors, '$[last - 48 to last]')
        END
        || (jsonb_build_object('attempt', attempt, 'at', at, 'error', left(error, 16500)) || coalesce(details, '{}'));
COMMENT ON FUNCTION _with_error IS 'The errors of a job with one error added. details: the members code, type, retryable and details of the error; each is optional. Null: the error has none. The newest 50 errors are kept. An error text is cut after 16,500 characters.';

CREATE FUNCTION _has_expired(expires_at timestamptz, state job_state, at timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (expires_at <= at AND state IN ('available', 'pending', 'retryable', 'scheduled')) IS TRUE;
COMMENT ON FUNCTION _has_expired IS 'Whether a job with these columns has not started by its expires_at. Such a job never starts.';

CREATE FUNCTION _refuse(problem text) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION _refuse IS 'Raises error 22023 with the message problem, for an argument outside its limits. Null: returns true.';

CREATE FUNCTION id_at(at timestamptz) RETURNS uuid
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (
        lpad(to_hex(greatest(0, least(281474976710655, extract(epoch FROM at) * 1000))::bigint), 12, '0')
        || '00000000000000000000'
    )::uuid;
COMMENT ON FUNCTION id_at IS 'The lowest id that a job made at this time can have. Ids follow time, so a condition such as job.id < id_at(now() - interval ''1 day'') reads a range of the primary key.';

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
    -- Columns that are usually null come last, where a null takes no space.
    updates integer,
    updated_at timestamptz,
    updated_by uuid,
    group_key key_text,
    group_limit group_limit,
    in_order boolean,
    began integer,
    reserved_until timestamptz,
    awaited boolean,
    expires_at timestamptz,
    expires_in interval,
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_state_fits CHECK (
        (finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded'))
        AND (worker IS NOT NULL OR state <> 'running')
    )
);
COMMENT ON TABLE job IS 'One row per job. The index job_unique_key lets at most one job at a time claim a unique key.';
COMMENT ON COLUMN job.id IS 'UUIDv7, made by the client. Ids follow time. An insert that is sent twice has the same id and is recognised.';
COMMENT ON COLUMN job.created_at IS 'When the job was inserted, by the database''s clock.';
COMMENT ON COLUMN job.scheduled_at IS 'The earliest time at which the job may run. Within a priority, jobs run in the order of this time.';
COMMENT ON COLUMN job.attempted_at IS 'When the latest attempt started. Null: the job has not started.';
COMMENT ON COLUMN job.finalized_at IS 'When the job was completed, cancelled or discarded. Null: the job is not final.';
COMMENT ON COLUMN job.unique_until IS 'When the claim on unique_key expires. Null: the claim has no time limit and ends with the job''s state.';
COMMENT ON COLUMN job.worker IS 'The runner that has the job or had it last: runner.id.';
COMMENT ON COLUMN job.replaced_by IS 'The job that replaced this one (on_conflict replace, replace_except_schedule or preempt).';
COMMENT ON COLUMN job.state IS 'The state of the job.';
COMMENT ON COLUMN job.run IS 'The number of the latest run. Each fetch adds 1. A result counts only for the run that made it.';
COMMENT ON COLUMN job.priority IS 'Jobs with a higher priority run first. Default 0.';
COMMENT ON COLUMN job.attempt IS 'The number of attempts that were started. Counted at fetch. After a runner''s first crash with the job the attempt is given back.';
COMMENT ON COLUMN job.max_attempts IS 'The number of attempts before the job is discarded. Default 25.';
COMMENT ON COLUMN job.crashes IS 'How many times in a row a runner died while it had the job. A job with a number above 0 is a suspect. Runners fetch suspects a few at a time.';
COMMENT ON COLUMN job.unique_states IS 'Bitmask of the states in which the job claims its key. See _state_bit and state_names. 0: the claim was given up for good.';
COMMENT ON COLUMN job.until_start IS 'Whether the claim ends for good when a runner fetches the job.';
COMMENT ON COLUMN job.discard_on_reentry IS 'The job''s reaction if it comes back to its unique states and another job holds the key. True: the job is discarded. False: it goes on without a claim.';
COMMENT ON COLUMN job.unique_yielded IS 'Whether the job goes on without its claim, because another job held the key when this one came back to its unique states.';
COMMENT ON COLUMN job.claims IS 'Whether the job claims its unique key, if unique_until has not passed. Generated. At most one row per key has true. A key without unique_states makes this null, which is an error.';
COMMENT ON COLUMN job.kind IS 'The name of the job''s type.';
COMMENT ON COLUMN job.queue IS 'The queue of the job.';
COMMENT ON COLUMN job.unique_key IS 'The key that makes two jobs the same. Null: the job is never a duplicate.';
COMMENT ON COLUMN job.args IS 'The job''s payload.';
COMMENT ON COLUMN job.meta IS 'A JSON object with data about the job, such as a tenant or a trace.';
COMMENT ON COLUMN job.errors IS 'Array of {"attempt", "at", "error"}, oldest first. An error may also have a "code", a "type" and "retryable". The newest 50 are kept.';
COMMENT ON COLUMN job.output IS 'The value that the job returned when it completed. Null: it returned none.';
COMMENT ON COLUMN job.progress IS 'The progress that the job reported last: any JSON value. It stays until a new one. Null: none was reported.';
COMMENT ON COLUMN job.updates IS 'How many duplicates changed the job in place (on_conflict update). Null: none.';
COMMENT ON COLUMN job.updated_at IS 'When a duplicate last changed the job in place.';
COMMENT ON COLUMN job.updated_by IS 'The id of the insert that last changed the job in place. The same insert, sent again, changes nothing.';
COMMENT ON COLUMN job.group_key IS 'The group of the job within its queue. Null: the job has no group.';
COMMENT ON COLUMN job.group_limit IS 'The job starts only while fewer jobs of its group run than this. Null: the job sets no limit.';
COMMENT ON COLUMN job.in_order IS 'Whether the jobs of the group run one at a time, in their order. A job that began is not overtaken. Null: no.';
COMMENT ON COLUMN job.began IS 'The run in which a job with in_order began. From then on it stays first in its group until it is final. 0: it replaced a job that began, and has its place. Null: it has not begun.';
COMMENT ON COLUMN job.reserved_until IS 'Until when the running job is reserved for the remote worker that fetched it. After that it is taken back. Null: a runner of the library fetched the job, and has it while the runner is alive. The value of a job that does not run is that of its latest run.';
COMMENT ON COLUMN job.awaited IS 'True: the releaser notes the end of this job for its children (job_parent). False: the end is noted for all children. Null: no child is known.';
COMMENT ON COLUMN job.expires_at IS 'A job that has not started by this time is discarded. Set to null when an attempt ends in a retry, a snooze or a rescue, and when an operator retries the job. Null: the job does not expire.';
COMMENT ON COLUMN job.expires_in IS 'The time to start, counted from when the job is due. The release of a pending job sets expires_at by it. Null: the job does not expire, or expires_at was given.';
COMMENT ON CONSTRAINT job_state_fits ON job IS 'finalized_at is set exactly when the state is final. A running job names its runner.';

CREATE UNIQUE INDEX job_unique_key ON job (unique_key) WHERE claims;
COMMENT ON INDEX job_unique_key IS 'At most one job claims a key. The generated column claims says whether a row''s state is among its unique states.';

CREATE INDEX job_fetch ON job (queue, priority DESC, scheduled_at, id) WHERE group_key IS NULL AND state = 'available';
COMMENT ON INDEX job_fetch IS 'Available jobs without a group, in the order in which they are fetched.';

CREATE INDEX job_group ON job (queue, priority DESC, group_key, scheduled_at, id)
    WHERE group_key IS NOT NULL AND state = 'available';
COMMENT ON INDEX job_group IS 'Available jobs of groups. A fetch visits the first job of each group.';

CREATE INDEX job_group_held ON job (queue, group_key)
    WHERE group_key IS NOT NULL AND finalized_at IS NULL AND (state = 'running' OR began IS NOT NULL);
COMMENT ON INDEX job_group_held IS 'Jobs that occupy places of their groups: running ones, and those in order that began.';

CREATE INDEX job_suspect ON job (queue, crashes, priority DESC, scheduled_at, id)
    WHERE crashes > 0 AND group_key IS NULL AND state = 'available';
COMMENT ON INDEX job_suspect IS 'Available suspects without a group. Those with the fewest crashes come first.';

CREATE INDEX job_waiting ON job (scheduled_at) WHERE state IN ('scheduled', 'retryable');
COMMENT ON INDEX job_waiting IS 'Scheduled and retryable jobs, by the time at which they are due.';

CREATE INDEX job_expiring ON job (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('available', 'pending', 'retryable', 'scheduled');
COMMENT ON INDEX job_expiring IS 'Jobs that have not started and can expire, by that time.';

CREATE INDEX job_running ON job (queue, worker) WHERE state = 'running';
COMMENT ON INDEX job_running IS 'Running jobs by queue and runner. Limits, rescues and the view running_job read it.';

CREATE INDEX job_discarded ON job (id) WHERE state = 'discarded';
COMMENT ON INDEX job_discarded IS 'Discarded jobs, the latest last. Completing a job does not write to this index.';

CREATE INDEX job_awaited ON job (id) WHERE awaited AND finalized_at IS NOT NULL;
COMMENT ON INDEX job_awaited IS 'Final jobs whose end the releaser has to note for their children. The completion of a job without children does not write to this index.';

CREATE TABLE job_parent (
    child uuid NOT NULL,
    parent uuid NOT NULL,
    outcome job_state,
    linked boolean NOT NULL,
    condition text COLLATE "C" NOT NULL,
    refused_end timestamptz,
    CONSTRAINT job_parent_pkey PRIMARY KEY (child, parent),
    CONSTRAINT job_parent_condition_known CHECK (condition IN ('completed', 'failed', 'final')),
    CONSTRAINT job_parent_outcome_final CHECK (outcome IN ('cancelled', 'completed', 'discarded'))
);
COMMENT ON TABLE job_parent IS 'One row per child and parent: an edge. The child runs after the parent. A child is pending until all of its parents have ended. The pruner deletes the edges of a child together with the child.';
COMMENT ON COLUMN job_parent.child IS 'The id of the job that waits.';
COMMENT ON COLUMN job_parent.parent IS 'The id of the job that the child waits for. If another job replaced the parent, the id of the successor.';
COMMENT ON COLUMN job_parent.outcome IS 'The final state in which the parent ended. It stays, even if the parent is retried or deleted later, unless the child was cancelled because of it. Null: the child waits for the end, or the releaser has not noted it yet.';
COMMENT ON COLUMN job_parent.linked IS 'Whether job.awaited of the parent was set for this edge. The releaser links new edges.';
COMMENT ON COLUMN job_parent.condition IS 'completed: the child is cancelled when the parent is cancelled or discarded. final: it runs however the parent ends. failed: it runs if at least one of its parents with this condition was cancelled or discarded, and else is cancelled.';
COMMENT ON COLUMN job_parent.refused_end IS 'The end of the parent (its finalized_at) because of which the child was cancelled. A retry makes outcome null and lets the child wait for another end. Null: the edge has not cancelled the child.';
COMMENT ON CONSTRAINT job_parent_pkey ON job_parent IS 'A child has one edge to each parent.';
COMMENT ON CONSTRAINT job_parent_condition_known ON job_parent IS 'A condition is completed, failed or final.';
COMMENT ON CONSTRAINT job_parent_outcome_final ON job_parent IS 'An outcome is a final state.';

CREATE INDEX job_parent_children ON job_parent (parent, outcome, child);
COMMENT ON INDEX job_parent_children IS 'The children of a job. Edges without an outcome come last.';

CREATE FUNCTION _is_open_edge(outcome job_state) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- The first half tells the planner how many edges are open. The second keeps the index to statements that ask for it.
    RETURN outcome IS NULL AND (outcome IS NULL) IS NOT DISTINCT FROM true;
COMMENT ON FUNCTION _is_open_edge IS 'Whether an edge has no outcome, in the form that the index job_parent_open serves. A statement that finds edges by their parent asks for a null outcome instead. Its plan would otherwise read all open edges, if few were open when the plan was made.';

-- The text of the function, so that the index does not go with it.
CREATE INDEX job_parent_open ON job_parent (child) WHERE outcome IS NULL AND (outcome IS NULL) IS NOT DISTINCT FROM true;
COMMENT ON INDEX job_parent_open IS 'Children with parents that have not ended.';

CREATE INDEX job_parent_new ON job_parent (parent, child) WHERE NOT linked;
COMMENT ON INDEX job_parent_new IS 'Edges whose parent the releaser has to mark (job.awaited).';

-- SQL as a front door of its own: keys, inserts and answers as from Rust, from any language, in
-- the caller's transaction. Runs with search_path set to the schema.

CREATE FUNCTION job_claim(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    unique_policy jsonb,
    OUT canonical text,
    OUT unique_key text,
    OUT unique_states smallint,
    OUT period interval,
    OUT ttl interval,
    OUT until_start boolean,
    OUT discard_on_reentry boolean,
    OUT on_conflict text
)
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    -- More than the 127 levels that the Rust library reads back.
    too_deep CONSTANT jsonpath := 'strict $.**{127} ? (@.type() == "array" || @.type() == "object")';
    beyond_doubles CONSTANT jsonpath := 'strict $.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)';
    policy record;
    source jsonb;
    problem text;
BEGIN
    problem := CASE
        WHEN kind IS NULL THEN 'kind: must not be null'
        WHEN kind = '' THEN 'kind: must not be empty: ""'
        WHEN octet_length(kind) > 128 THEN format('kind: must not be longer than 128 bytes: %s', to_json(kind))
        WHEN kind COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
            format('kind: must not hold control characters: %s', to_json(kind))
        WHEN queue IS NULL THEN 'queue: must not be null'
        WHEN queue = '' THEN 'queue: must not be empty: ""'
        WHEN octet_length(queue) > 128 THEN format('queue: must not be longer than 128 bytes: %s', to_json(queue))
        WHEN queue COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN
            format('queue: must not hold control characters: %s', to_json(queue))
        WHEN priority NOT BETWEEN -32768 AND 32767 THEN format('priority: must be -32768 to 32767: %s', priority)
        WHEN max_attempts NOT BETWEEN 1 AND 32767 THEN format('max_attempts: must be 1 to 32767: %s', max_attempts)
        WHEN scheduled_at < '0001-01-01 00:00:00+00' OR scheduled_at >= '9001-01-01 00:00:00+00' THEN
            format('scheduled_at: must be in the years 1 to 9000: %s', scheduled_at)
        WHEN args IS NULL THEN format('args of %s: must not be null', to_json(kind))
        WHEN jsonb_path_exists(args, too_deep) THEN
            format('args of %s: values nest too deeply: "more than 127 levels"', to_json(kind))
        WHEN meta IS NULL THEN format('meta of %s: must not be null', to_json(kind))
        WHEN jsonb_typeof(meta) <> 'object' THEN
            format('meta of %s: must be an object: %s', to_json(kind), left(meta::text, 80))
        WHEN jsonb_path_exists(meta, too_deep) THEN
            format('meta of %s: values nest too deeply: "more than 127 levels"', to_json(kind))
        -- A runner that meets one cannot read the row.
        WHEN jsonb_path_exists(meta, beyond_doubles) THEN
            format('meta of %s: the number is out of range: "beyond 1.8e308"', to_json(kind))
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'invalid ' || problem;
    ELSIF unique_policy IS NULL THEN
        RETURN;
    END IF;

    SELECT p.* INTO policy FROM read_unique_policy(unique_policy) AS p;
    unique_states := policy.unique_states;
    period := (policy.period_length * 1000000)::bigint * interval '1 microsecond';
    ttl := (policy.ttl_length * 1000000)::bigint * interval '1 microsecond';
    until_start := policy.until_start;
    discard_on_reentry := policy.discard_on_reentry;
    on_conflict := policy.on_conflict;
    IF policy.key IS NOT NULL THEN
        unique_key := policy.key;
        RETURN;
    ELSIF getdatabaseencoding() <> 'UTF8' THEN
        RAISE feature_not_supported USING
            MESSAGE = format('unique keys need a database with encoding UTF8: this one has %s', getdatabaseencoding()),
            HINT = 'Make the key in the client, and pass it as {"key": "…"}.';
    END IF;

    canonical := '';
    IF policy.has_args THEN
        source := args;
        IF coalesce(policy.args_keys, policy.optional_args_keys) IS NOT NULL THEN
            -- Positional args are chosen from in their first item when that is an object.
            source := CASE WHEN jsonb_typeof(args) = 'array' AND jsonb_typeof(args -> 0) = 'object' THEN args -> 0 ELSE args END;
            source := coalesce(
                chosen_parts(
                    source, policy.optional_args_keys, 'optional_args_keys',
                    chosen_parts(source, policy.args_keys, 'args_keys')
                ),
                '{}'
            );
        END IF;
        canonical := canonical || ',"args":' || canonical_value(source);
    END IF;
    IF policy.has_meta THEN
        source := coalesce(chosen_parts(meta, policy.meta_keys, 'meta_keys'), '{}');
        canonical := canonical || ',"meta":' || canonical_value(source);
    END IF;
    IF policy.window_length IS NOT NULL THEN
        canonical := canonical || ',"period":"' || window_text(coalesce(scheduled_at, clock_timestamp()), policy.window_length) || '"';
    END IF;
    IF policy.has_queue THEN
        canonical := canonical || ',"queue":' || to_json(nfc(queue));
    END IF;
    IF policy.has_type THEN
        canonical := canonical || ',"type":' || to_json(nfc(kind));
    END IF;
    canonical := '{' || substr(canonical, 2) || '}';
    unique_key := encode(sha256(convert_to(canonical, 'UTF8')), 'hex');
END
$$;
COMMENT ON FUNCTION job_claim(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb) IS
    'Checks the arguments of insert_job and makes the claim: the canonical text of the fingerprint (null for a raw key), its SHA-256, and the terms. All null for a plain job. Errors as insert_job.';

CREATE FUNCTION unique_key(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    unique_policy jsonb DEFAULT '{}',
    scheduled_at timestamptz DEFAULT NULL
) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT c.unique_key FROM job_claim(kind, args, queue, meta, 0, NULL, scheduled_at, unique_policy) AS c);
COMMENT ON FUNCTION unique_key(text, jsonb, text, jsonb, jsonb, timestamptz) IS
    'The unique key that a job gets by a policy: lowercase hex SHA-256 of its fingerprint''s canonical text, the same as the Rust library makes.
kind: 1 to 128 bytes, no control characters. args: default {}. queue: default "default". meta: an object, default {}. scheduled_at: decides the window; default now.
unique_policy: an object; default {}, the kind alone; null: no key. Members, all optional:
  keys: list of type (always in), queue, args, meta.
  args_keys, optional_args_keys: parts of the args, by name or JSON Pointer; the optional ones may be missing.
  meta_keys: parts of the meta; may be missing.
  exclude_type: true leaves the type out.
  window: ISO 8601 duration of whole seconds; the window is part of the key.
  key: a raw key of 1 to 512 bytes, which stands alone.
  states: list of states in which the job claims its key (active is running); or
  scope: queued, active (default), completed, exists.
  period: the claim ends so long after created_at; ttl: after the later of created_at and scheduled_at.
  until: start (the fetch ends the claim) or success (all states but completed).
  on_conflict: ignore (default), reject, replace, replace_except_schedule.
  on_reentry: go_on (default) or discard.
Errors 22023, naming the argument or the member: anything else.';

CREATE FUNCTION new_job_id() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    -- RFC 9562, version 7: milliseconds, then microseconds as twelve bits, then random ones, of
    -- which version 4 has the variant in the right place.
    RETURN (
        SELECT (
            lpad(to_hex(c.microseconds / 1000), 12, '0')
            || '7'
            || lpad(to_hex(c.microseconds % 1000 * 4096 / 1000), 3, '0')
            || substr(replace(gen_random_uuid()::text, '-', ''), 17)
        )::uuid
        FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS microseconds) AS c
    );
COMMENT ON FUNCTION new_job_id() IS
    'A new UUIDv7. Ids follow the clock to the microsecond.';

CREATE FUNCTION enter_job(
    kind text,
    args jsonb,
    queue text,
    meta jsonb,
    priority integer,
    max_attempts integer,
    scheduled_at timestamptz,
    unique_policy jsonb,
    id uuid,
    OUT outcome text,
    OUT replaced uuid,
    OUT entered job
)
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    claim record;
    answer record;
BEGIN
    SELECT c.* INTO claim
    FROM job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy) AS c;
    SELECT r.* INTO answer
    FROM insert_jobs(
        ids => ARRAY[coalesce(id, new_job_id())],
        kinds => ARRAY[kind],
        queues => ARRAY[queue],
        args => ARRAY[args],
        metas => ARRAY[meta],
        priorities => ARRAY[coalesce(priority, 0)::smallint],
        max_attempts => ARRAY[coalesce(max_attempts, 25)::smallint],
        scheduled_ats => ARRAY[scheduled_at],
        delays => ARRAY[NULL::interval],
        pendings => ARRAY[false],
        unique_keys => ARRAY[claim.unique_key],
        unique_states => ARRAY[claim.unique_states],
        periods => ARRAY[claim.period],
        ttls => ARRAY[claim.ttl],
        until_starts => ARRAY[coalesce(claim.until_start, false)],
        discards_on_reentry => ARRAY[coalesce(claim.discard_on_reentry, false)],
        on_conflicts => ARRAY[coalesce(claim.on_conflict, 'ignore')],
        -- What the quick pass cannot do: another on_conflict, and an id that may be there.
        in_order => coalesce(claim.on_conflict, 'ignore') <> 'ignore' OR id IS NOT NULL
    ) AS r;
    outcome := answer.outcome;
    replaced := answer.replaced;
    entered := answer.job;
    IF outcome = 'rejected' THEN
        RAISE unique_violation USING
            MESSAGE = format('duplicate: the unique key is held by job %s (%s)', entered.id, entered.state),
            DETAIL = format('{"holder": "%s", "state": "%s"}', entered.id, entered.state),
            HINT = 'Nothing was inserted. To go on with the transaction, insert within a savepoint.',
            SCHEMA = current_schema(),
            TABLE = 'job',
            CONSTRAINT = 'job_unique_key';
    END IF;
END
$$;
COMMENT ON FUNCTION enter_job(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'What insert_job does, in PL/pgSQL, where an argument and a column of the answer cannot both be named id.';

CREATE FUNCTION insert_job(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL
) RETURNS TABLE (id uuid, state text, duplicate boolean, replaced uuid, unique_key text)
    LANGUAGE sql VOLATILE
    ROWS 1
BEGIN ATOMIC
    SELECT (e.entered).id, (e.entered).state::text, e.outcome = 'duplicate', e.replaced, (e.entered).unique_key
    FROM enter_job(
        insert_job.kind, insert_job.args, insert_job.queue, insert_job.meta, insert_job.priority,
        insert_job.max_attempts, insert_job.scheduled_at, insert_job.unique_policy, insert_job.id
    ) AS e;
END;
COMMENT ON FUNCTION insert_job(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'Inserts a job in the caller''s transaction. Answers with the new job; or, with duplicate set, with the job that claims the key, which stays as it is and unlocked.
kind, args, queue, meta: as unique_key. priority: higher runs first, -32768 to 32767, default 0. max_attempts: 1 to 32767, default 25. scheduled_at: when it may run, at the earliest; default now. unique_policy: as unique_key; default null: not unique. id: default a new UUIDv7; an id that is there already is answered with its job.
replaced: the job that this one took the place of.
on_conflict reject, and replace on a running holder: error 23505 on constraint job_unique_key, with {"holder": id, "state": state} as DETAIL. As every error it aborts the transaction, unless the insert stands within a savepoint.
Errors 22023, naming the argument or the policy''s member: a value outside its limits. Waits for an uncommitted rival with the same key, as long as lock_timeout allows.';

CREATE FUNCTION claim_end(unique_states smallint, until_start boolean, unique_until timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN unique_states = 255 AND until_start THEN 'when a worker fetches it or it is deleted'
        WHEN unique_states = 255 THEN 'when it is deleted'
        WHEN until_start THEN
            'when a worker fetches it or it leaves ' || array_to_string(state_names(unique_states), ', ')
        ELSE 'when it leaves ' || array_to_string(state_names(unique_states), ', ')
    END
    || coalesce('; at the latest at ' || to_char(unique_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '');
COMMENT ON FUNCTION claim_end(smallint, boolean, timestamptz) IS
    'When a holder''s claim ends, as a sentence; the arguments are columns of job.';

CREATE FUNCTION explain_unique(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL
) RETURNS TABLE (
    canonical text, unique_key text, would_insert boolean, holder uuid, holder_state text,
    holder_age interval, claims_in text[], frees text
)
    LANGUAGE plpgsql STABLE
    ROWS 1
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    given_id CONSTANT uuid := id;
    claim record;
BEGIN
    SELECT c.* INTO claim
    FROM job_claim(kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy) AS c;
    -- One row, whether there is a holder or not. An expired claim holds nothing: the insert that
    -- meets it releases it.
    RETURN QUERY
    SELECT
        claim.canonical,
        claim.unique_key,
        (h.id IS NULL OR (claim.on_conflict LIKE 'replace%' AND h.state <> 'running'))
            AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = given_id),
        h.id,
        h.state::text,
        clock_timestamp() - h.created_at,
        state_names(h.unique_states),
        claim_end(h.unique_states, h.until_start, h.unique_until)
    FROM (SELECT claim.unique_key COLLATE "C" AS unique_key) AS c
    LEFT JOIN job AS h
        ON h.unique_key = c.unique_key
        AND h.claims
        AND (h.unique_until IS NULL OR h.unique_until > clock_timestamp());
END
$$;
COMMENT ON FUNCTION explain_unique(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'What insert_job would do with the same arguments, and why; without locks or writes, so another transaction may change it meanwhile.
canonical: the text whose SHA-256 is the key; null for a raw key. would_insert: false where the answer would be the holder, an error, or the job that has the id already. holder, holder_state, holder_age: the job that claims the key, since its created_at; null where the key is free. claims_in: the states in which the holder claims it. frees: when its claim ends.
Errors 22023 as insert_job.';

CREATE FUNCTION release_claim(unique_key text) RETURNS uuid
    LANGUAGE sql VOLATILE
    SET search_path FROM CURRENT
AS $$
    UPDATE job AS j
    SET unique_states = 0
    WHERE j.unique_key = release_claim.unique_key COLLATE "C" AND j.claims
    RETURNING j.id
$$;
COMMENT ON FUNCTION release_claim(text) IS
    'For operators: the job that claims the key gives its claim up for good, and otherwise stays as it is. Answers with its id, also where the claim had expired already; null where no job has it.';

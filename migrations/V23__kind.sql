-- Kinds that are registered: what an insert that names only the kind takes from it.

CREATE TABLE kind (
    name short_name NOT NULL,
    queue short_name,
    priority smallint,
    max_attempts attempt_limit,
    delay interval,
    timeout interval,
    backoff jsonb_object,
    unique_policy jsonb_object,
    group_policy jsonb_object,
    group_limit group_limit,
    in_order boolean,
    expires_in interval,
    place short_name,
    owners jsonb_object NOT NULL DEFAULT '{}',
    digest text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    registered_at timestamptz NOT NULL,
    registered_by text COLLATE "C" NOT NULL,
    changed_at timestamptz NOT NULL,
    former_digest text COLLATE "C",
    former_by text COLLATE "C",
    returned_at timestamptz,
    CONSTRAINT kind_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50);
COMMENT ON TABLE kind IS 'One row per registered kind. The row has the defaults that insert_job, insert_jobs, the command and the dashboard give to jobs of the kind. register_kind writes it. A kind can be used without a row.';
COMMENT ON COLUMN kind.name IS 'The name of the kind, as in job.kind.';
COMMENT ON COLUMN kind.queue IS 'The queue of its jobs. Null: default.';
COMMENT ON COLUMN kind.priority IS 'The priority of its jobs. Null: 0.';
COMMENT ON COLUMN kind.max_attempts IS 'The number of attempts of its jobs. Null: 25.';
COMMENT ON COLUMN kind.delay IS 'The time from the insert until a job is due. Null: at once.';
COMMENT ON COLUMN kind.timeout IS 'The longest time that a job may run, for workers without a timeout of their own. Null: no limit.';
COMMENT ON COLUMN kind.backoff IS 'The wait before a retry, for workers that set no retry policy of their own: {"first", "factor", "max_interval", "jitter"}. After attempt n a job waits first × factor^(n−1), at most max_interval, plus or minus the fraction jitter. Default 1 s, 2, an hour (or first, if that is longer), 0.1. With factor 1 there is no longest wait and no jitter by default. Null: all defaults.';
COMMENT ON COLUMN kind.unique_policy IS 'The policy of the unique keys of its jobs, as unique_key takes it. Null: the jobs are not unique.';
COMMENT ON COLUMN kind.group_policy IS 'The policy of the group keys of its jobs, as insert_job takes it. Null: the jobs have no group.';
COMMENT ON COLUMN kind.group_limit IS 'How many jobs of a group may run at the same time. Null: the kind sets no limit.';
COMMENT ON COLUMN kind.in_order IS 'Whether the jobs of a group run one at a time in their order. Null: the kind does not ask for an order.';
COMMENT ON COLUMN kind.expires_in IS 'The time in which a job must start, counted from when it is due. Null: the jobs do not expire.';
COMMENT ON COLUMN kind.place IS 'The value of its jobs that decides their place, among places that share hashed values: unique_key, group, id, or a member of the args by name or by JSON Pointer. A place refuses a job whose value belongs to another place. Null: its jobs may be in any place.';
COMMENT ON COLUMN kind.owners IS 'The program that declared each default last, such as {"queue": "worker.py"}. What a program declares replaces what it declared before. What other programs declared stays. What has no owner stays until it is declared anew: the timeout, the backoff, and what was declared without a program.';
COMMENT ON COLUMN kind.digest IS 'A digest of each default but the timeout and the backoff, by its meaning, such as queue=9b74c9897bac.';
COMMENT ON COLUMN kind.created_at IS 'When the kind was first registered.';
COMMENT ON COLUMN kind.registered_at IS 'When the kind was last registered.';
COMMENT ON COLUMN kind.registered_by IS 'The process that last registered the kind: a runner''s name, or the argument of register_kind.';
COMMENT ON COLUMN kind.changed_at IS 'When a registration last changed the digest.';
COMMENT ON COLUMN kind.former_digest IS 'The digest before changed_at. Null: it never changed.';
COMMENT ON COLUMN kind.former_by IS 'The process that last registered the former definition.';
COMMENT ON COLUMN kind.returned_at IS 'When a registration last restored the former definition: two processes define the kind differently, or one was rolled back.';

CREATE FUNCTION _backoff_length(backoff jsonb, member text) RETURNS double precision
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN backoff ->> member IN ('PT0S', '0s') THEN 0
        ELSE extract(epoch FROM _policy_length(backoff ->> member, member))
    END;
COMMENT ON FUNCTION _backoff_length IS 'A length of time in kind.backoff, in seconds. Null: the member is absent.';

CREATE FUNCTION _check_backoff(backoff jsonb) RETURNS boolean
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    member text;
    problem text;
BEGIN
    PERFORM _refuse(format('invalid backoff: must be an object: %s', left(backoff::text, 80)))
    WHERE jsonb_typeof(backoff) <> 'object';
    FOR member IN SELECT k.name FROM jsonb_object_keys(backoff) AS k (name) ORDER BY k.name COLLATE "C" LOOP
        problem := CASE
            WHEN member IN ('first', 'max_interval') THEN
                CASE WHEN jsonb_typeof(backoff -> member) <> 'string' THEN 'must be a length of time, such as 30s' END
            WHEN member NOT IN ('factor', 'jitter') THEN
                'unknown member; the members are first, factor, max_interval and jitter'
            WHEN jsonb_typeof(backoff -> member) <> 'number' THEN 'must be a number'
            WHEN member = 'factor' AND (backoff ->> member)::numeric NOT BETWEEN 1 AND 1000 THEN 'must be 1 to 1000'
            WHEN member = 'jitter' AND (backoff ->> member)::numeric NOT BETWEEN 0 AND 1 THEN 'must be 0 to 1'
        END;
        IF problem IS NULL AND member IN ('first', 'max_interval') THEN
            BEGIN
                PERFORM _backoff_length(backoff, member);
            EXCEPTION
                WHEN invalid_parameter_value THEN
                    problem := 'must be a length of time, such as 30s';
            END;
        END IF;
        PERFORM _refuse(format('invalid backoff: %s: %s: %s', member, problem, left((backoff -> member)::text, 80)))
        WHERE problem IS NOT NULL;
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION _check_backoff IS 'Raises error 22023 if the document cannot be kind.backoff. Null is allowed.';

CREATE FUNCTION register_kind(
    kind text,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    delay interval DEFAULT NULL,
    timeout interval DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    group_policy jsonb DEFAULT NULL,
    group_limit integer DEFAULT NULL,
    in_order boolean DEFAULT NULL,
    registered_by text DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    expires_in interval DEFAULT NULL,
    place text DEFAULT NULL,
    program text DEFAULT NULL
) RETURNS kind
    LANGUAGE plpgsql VOLATILE
    -- Intervals become text and are read again, so their style must be fixed.
    SET intervalstyle = 'postgres'
AS $$
DECLARE
    instant CONSTANT timestamptz := clock_timestamp();
    registrant CONSTANT text := left(
        coalesce(nullif(registered_by, ''), nullif(current_setting('application_name'), ''), session_user::text), 200
    );
    owner CONSTANT text := left(nullif(program, ''), 200);
    declared jsonb;
    former kind;
    registered kind;
BEGIN
    PERFORM _refuse(format('invalid timeout: must be 0 to 100 years: %s', timeout)) WHERE NOT _is_to_100_years(timeout);
    PERFORM _check_backoff(backoff);
    SELECT coalesce(jsonb_object_agg(m.member, m.value), '{}')
    INTO declared
    FROM (
        VALUES
            ('queue', to_jsonb(queue)), ('priority', to_jsonb(priority)), ('max_attempts', to_jsonb(max_attempts)),
            ('delay', to_jsonb(delay)), ('timeout', to_jsonb(timeout)), ('backoff', backoff), ('unique_policy', unique_policy),
            ('group_policy', group_policy), ('group_limit', to_jsonb(group_limit)), ('in_order', to_jsonb(in_order)),
            ('expires_in', to_jsonb(expires_in)), ('place', to_jsonb(place))
    ) AS m (member, value)
    WHERE m.value IS NOT NULL;
    PERFORM _kind_digest(kind, declared);
    IF declared = '{}' THEN
        SELECT k.* INTO registered FROM kind AS k WHERE k.name = kind COLLATE "C";
        RETURN registered;
    END IF;
    INSERT INTO kind (name, digest, created_at, registered_at, registered_by, changed_at)
    VALUES (kind, '', instant, instant, registrant, instant)
    ON CONFLICT (name) DO NOTHING;
    SELECT k.* INTO former FROM kind AS k WHERE k.name = kind COLLATE "C" FOR NO KEY UPDATE;
    registered := jsonb_populate_record(former, declared || (
        SELECT coalesce(jsonb_object_agg(o.member, NULL::text), '{}')
        FROM jsonb_each_text(former.owners) AS o (member, by)
        WHERE o.by = owner AND NOT declared ? o.member
    ));
    SELECT jsonb_object_agg(o.member, o.by)
    INTO registered.owners
    FROM (
        SELECT f.member, f.by
        FROM jsonb_each_text(former.owners) AS f (member, by)
        WHERE f.by IS DISTINCT FROM owner AND NOT declared ? f.member
        UNION ALL
        SELECT d.member, owner FROM jsonb_object_keys(declared - '{timeout,backoff}'::text[]) AS d (member) WHERE owner IS NOT NULL
    ) AS o (member, by);
    registered.digest := _kind_digest(kind, to_jsonb(registered));
    UPDATE kind AS k
    SET queue = registered.queue,
        priority = registered.priority,
        max_attempts = registered.max_attempts,
        delay = nullif(registered.delay, interval '0'),
        timeout = nullif(registered.timeout, interval '0'),
        backoff = nullif(registered.backoff, '{}'),
        unique_policy = registered.unique_policy,
        group_policy = registered.group_policy,
        group_limit = registered.group_limit,
        in_order = registered.in_order,
        expires_in = registered.expires_in,
        place = registered.place,
        owners = coalesce(registered.owners, '{}'),
        digest = registered.digest,
        registered_at = instant,
        registered_by = registrant,
        changed_at = CASE WHEN k.digest = registered.digest THEN k.changed_at ELSE instant END,
        former_digest = CASE WHEN k.digest IN (registered.digest, '') THEN k.former_digest ELSE k.digest END,
        former_by = CASE WHEN k.digest IN (registered.digest, '') THEN k.former_by ELSE k.registered_by END,
        returned_at = CASE
            WHEN k.digest <> registered.digest AND k.former_digest = registered.digest THEN instant
            ELSE k.returned_at
        END
    WHERE k.name = kind COLLATE "C"
    RETURNING k.* INTO registered;
    RETURN registered;
END
$$;
COMMENT ON FUNCTION register_kind IS 'Registers a kind: the defaults for inserts that name it and leave them out. Replaces what the same program declared before. What other programs declared stays, unless it is declared anew. An argument that is left out, or null, declares nothing. ''null''::jsonb as a policy, 0 as a time and {} as backoff declare that there is none. Returns the row of kind. The arguments are in docs/learn/kinds.md.';

CREATE FUNCTION _kind_digest(kind text, defaults jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET intervalstyle = 'postgres'
AS $$
DECLARE
    d record;
    unique_terms text;
    group_terms text;
BEGIN
    SELECT r.* INTO d
    FROM jsonb_to_record(defaults) AS r (
        queue text, priority integer, max_attempts integer, delay interval, unique_policy jsonb, group_policy jsonb,
        group_limit integer, in_order boolean, expires_in interval, place text
    );
    PERFORM _job_claim(
        kind, '{}', coalesce(d.queue, 'default'), '{}', d.priority, d.max_attempts, scheduled_at => NULL, unique_policy => NULL
    );
    PERFORM _check_expiry(expires_at => NULL, expires_in => d.expires_in, scheduled_at => NULL);
    PERFORM _refuse(CASE
        WHEN NOT _is_to_100_years(d.delay) THEN format('invalid delay: must be 0 to 100 years: %s', d.delay)
        WHEN d.group_limit NOT BETWEEN 1 AND 32767 THEN format('invalid group_limit: must be 1 to 32767: %s', d.group_limit)
        WHEN d.in_order AND d.group_limit > 1 THEN
            format('invalid group_limit: must be 1 for a job that is in_order: %s', d.group_limit)
        WHEN octet_length(d.place) NOT BETWEEN 1 AND 128 THEN format('invalid place: must be 1 to 128 bytes: %s', left(d.place, 80))
        WHEN d.group_policy ? 'window' THEN 'invalid group_policy: window: a group has none'
    END);
    -- What the documents mean, not how they are written.
    IF d.unique_policy <> 'null' THEN
        SELECT p::text INTO unique_terms FROM _read_unique_policy(d.unique_policy) AS p WHERE p.is_enforced;
    END IF;
    IF d.group_policy <> 'null' THEN
        SELECT p::text INTO group_terms FROM _read_unique_policy(d.group_policy) AS p WHERE p.is_enforced;
    END IF;
    RETURN (
        SELECT coalesce(string_agg(
            t.member || '=' || left(encode(sha256(convert_to(t.term, 'UTF8')), 'hex'), 12), ' ' ORDER BY t.member COLLATE "C"
        ), '')
        FROM (
            VALUES
                ('queue', d.queue), ('priority', d.priority::text), ('max_attempts', d.max_attempts::text),
                ('delay', nullif(d.delay, interval '0')::text), ('unique_policy', unique_terms), ('group_policy', group_terms),
                ('group_limit', d.group_limit::text), ('in_order', nullif(d.in_order, false)::text),
                ('expires_in', d.expires_in::text), ('place', d.place)
        ) AS t (member, term)
        WHERE t.term IS NOT NULL
    );
END
$$;
COMMENT ON FUNCTION _kind_digest IS 'Checks the defaults of a kind, which are arguments of register_kind, and returns kind.digest.';

CREATE FUNCTION remove_kind(kind text) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
WITH removed AS (DELETE FROM kind AS k WHERE k.name = remove_kind.kind COLLATE "C" RETURNING k.name)
SELECT count(*) > 0 FROM removed AS r
$$;
COMMENT ON FUNCTION remove_kind IS 'Deletes the registration of a kind, until a runner registers it again. Returns whether there was one.';

-- Periodic jobs.

CREATE TABLE periodic (
    name short_name NOT NULL,
    starts_at timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz,
    last_at timestamptz,
    placed_at timestamptz NOT NULL DEFAULT now(),
    paused_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_job uuid,
    priority smallint,
    max_attempts attempt_limit,
    kind short_name NOT NULL,
    queue short_name,
    schedule text COLLATE "C" NOT NULL,
    time_zone text COLLATE "C" NOT NULL DEFAULT 'UTC',
    catch_up text COLLATE "C" NOT NULL DEFAULT 'latest',
    source text COLLATE "C" NOT NULL DEFAULT 'database',
    problem text COLLATE "C",
    args jsonb NOT NULL DEFAULT '{}',
    meta jsonb_object NOT NULL DEFAULT '{}',
    unique_policy jsonb,
    group_key key_text,
    group_limit group_limit,
    in_order boolean,
    takes_from_kind boolean NOT NULL DEFAULT true,
    expires_in interval,
    CONSTRAINT periodic_pkey PRIMARY KEY (name),
    CONSTRAINT periodic_schedule_short CHECK (octet_length(schedule) <= 1000 AND octet_length(time_zone) <= 1000),
    CONSTRAINT periodic_expires_in_valid CHECK (
        -- As _is_to_100_years.
        expires_in >= interval '0' AND expires_in <= interval '36525 days'
        AND timestamp '1970-01-01' + expires_in <= timestamp '2070-01-01'
    ),
    CONSTRAINT periodic_catch_up_known CHECK (catch_up IN ('skip', 'latest', 'all')),
    CONSTRAINT periodic_source_known CHECK (source IN ('code', 'database'))
);
COMMENT ON TABLE periodic IS 'One row per periodic job: what is inserted at each slot of a schedule. Rows may be changed by hand.';
COMMENT ON COLUMN periodic.name IS 'The name of the periodic job: 1 to 128 bytes.';
COMMENT ON COLUMN periodic.starts_at IS 'The first slot comes after this time. Used when next_at is null.';
COMMENT ON COLUMN periodic.next_at IS 'The next slot. Runners fill it in. Null: the first slot after starts_at. A time that is written here is the next slot.';
COMMENT ON COLUMN periodic.last_at IS 'The last slot that was due.';
COMMENT ON COLUMN periodic.placed_at IS 'When next_at or starts_at was last set. If it lies more than a minute in the future, the server''s clock has gone back, and the next slot is the first one from now on.';
COMMENT ON COLUMN periodic.paused_at IS 'When the periodic job was paused. No slot runs while it is paused. Null: it is not paused. To resume without the missed slots, also set next_at to null and starts_at to now().';
COMMENT ON COLUMN periodic.created_at IS 'When the periodic job was defined.';
COMMENT ON COLUMN periodic.last_job IS 'The id of the job that was inserted last.';
COMMENT ON COLUMN periodic.priority IS 'The priority of the inserted jobs. Null: that of the registered kind, else 0.';
COMMENT ON COLUMN periodic.max_attempts IS 'The max_attempts of the inserted jobs. Null: that of the registered kind, else 25.';
COMMENT ON COLUMN periodic.queue IS 'The queue of the inserted jobs. Null: that of the registered kind, else default.';
COMMENT ON COLUMN periodic.schedule IS 'A cron expression of five fields (0 9 * * MON-FRI), one of six fields with seconds first, or an interval as an ISO 8601 duration of whole seconds (PT15M). A new schedule begins when it is written.';
COMMENT ON COLUMN periodic.time_zone IS 'The IANA name of the time zone in which the cron expression is read.';
COMMENT ON COLUMN periodic.catch_up IS 'Which slots run later if they passed without a live runner: skip (none), latest (the last one), all (each, up to 1,000).';
COMMENT ON COLUMN periodic.source IS 'Where the periodic job is defined. code: a runner writes the row at its start and overwrites changes. database: the row is the definition.';
COMMENT ON COLUMN periodic.problem IS 'Why the slots cannot run. Null: they can. Runners check it again every few seconds.';
COMMENT ON COLUMN periodic.meta IS 'The meta of the inserted jobs. Each job also gets the member periodic: {"name", "slot"}.';
COMMENT ON COLUMN periodic.unique_policy IS 'The policy of the inserted jobs, as in insert_job. A slot that meets a holder of the key is skipped. Null: that of the registered kind. Without either, or with the JSON value null, each slot has its own key.';
COMMENT ON COLUMN periodic.group_key IS 'The group of the inserted jobs. Null: that of the registered kind, else none.';
COMMENT ON COLUMN periodic.takes_from_kind IS 'Whether the jobs take from their registered kind what this row leaves out.';
COMMENT ON COLUMN periodic.expires_in IS 'The time in which a job must start. Null: that of the registered kind, else no limit. 0: no limit.';
COMMENT ON COLUMN periodic.kind IS 'The kind of the inserted jobs.';
COMMENT ON COLUMN periodic.args IS 'The args of the inserted jobs.';
COMMENT ON COLUMN periodic.group_limit IS 'The group_limit of the inserted jobs.';
COMMENT ON COLUMN periodic.in_order IS 'The in_order of the inserted jobs.';
COMMENT ON CONSTRAINT periodic_schedule_short ON periodic IS 'A schedule and a time zone have at most 1,000 bytes each, so that reading them costs little.';
COMMENT ON CONSTRAINT periodic_expires_in_valid ON periodic IS 'expires_in is 0 to 100 years.';
COMMENT ON CONSTRAINT periodic_catch_up_known ON periodic IS 'catch_up is skip, latest or all.';
COMMENT ON CONSTRAINT periodic_source_known ON periodic IS 'source is code or database.';

CREATE FUNCTION _place_periodic() RETURNS trigger
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF (NEW.schedule, NEW.time_zone) IS DISTINCT FROM (OLD.schedule, OLD.time_zone) THEN
        -- What is written together with the schedule counts.
        IF NEW.problem IS NOT DISTINCT FROM OLD.problem THEN
            NEW.problem := NULL;
        END IF;
        IF NEW.next_at IS NOT DISTINCT FROM OLD.next_at THEN
            NEW.next_at := NULL;
        END IF;
        IF NEW.starts_at = OLD.starts_at THEN
            NEW.starts_at := clock_timestamp();
        END IF;
    END IF;
    NEW.placed_at := clock_timestamp();
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION _place_periodic IS 'Starts a new schedule or time zone of a periodic job. The next slot is the first one from now on.';

CREATE TRIGGER periodic_place
    BEFORE UPDATE OF schedule, time_zone, next_at, starts_at ON periodic
    FOR EACH ROW
    WHEN ((OLD.schedule, OLD.time_zone, OLD.next_at, OLD.starts_at)
        IS DISTINCT FROM (NEW.schedule, NEW.time_zone, NEW.next_at, NEW.starts_at))
    EXECUTE FUNCTION _place_periodic();
COMMENT ON TRIGGER periodic_place ON periodic IS 'Clears next_at when the schedule or the time zone changes.';

CREATE FUNCTION _slot_text(slot timestamptz) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(slot AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || coalesce('.' || nullif(rtrim(to_char(slot AT TIME ZONE 'UTC', 'US'), '0'), ''), '')
        || 'Z';
COMMENT ON FUNCTION _slot_text IS 'A slot in RFC 3339, as it stands in the keys and the meta of periodic jobs.';

CREATE FUNCTION _slot_id(name text, slot timestamptz) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    -- A UUIDv7 of the slot's time. Its random part is made from name and slot.
    RETURN (
        SELECT overlay(
            overlay(overlay(id_at(slot)::text PLACING '7' || substr(h.hex, 1, 3) FROM 15 FOR 4) PLACING '8' FROM 20 FOR 1)
            PLACING substr(h.hex, 4, 3) || '-' || substr(h.hex, 7, 12) FROM 21
        )::uuid
        FROM (SELECT encode(sha256(convert_to(name || ' ' || _slot_text(slot), 'UTF8')), 'hex') AS hex) AS h
    );
COMMENT ON FUNCTION _slot_id IS 'The id of the job for a slot, always the same, so that a second insert is recognised.';

CREATE FUNCTION _insert_periodic(
    p periodic, slot timestamptz, job_id uuid, OUT outcome text, OUT id uuid, OUT duplicate boolean
)
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    SELECT e.outcome, e.id, e.duplicate INTO outcome, id, duplicate
    FROM insert_job(
        p.kind,
        p.args,
        p.queue,
        p.meta || jsonb_build_object('periodic', jsonb_strip_nulls(jsonb_build_object('name', p.name, 'slot', _slot_text(slot)))),
        p.priority,
        p.max_attempts,
        slot,
        -- The claim of a slot lasts ten minutes, also where completed jobs are not kept. Later it is due again only after the
        -- clock went back or next_at was moved back by hand. Then its job's id shows that it was run, as long as the job is kept.
        CASE
            WHEN slot IS NULL THEN p.unique_policy
            ELSE coalesce(
                nullif(p.unique_policy, 'null'),
                (SELECT k.unique_policy FROM kind AS k WHERE k.name = p.kind AND p.unique_policy IS NULL AND p.takes_from_kind),
                jsonb_build_object('key', 'periodic:' || p.name || ':' || _slot_text(slot), 'scope', 'exists', 'ttl', 'PT10M')
            )
        END,
        job_id,
        -- There is no caller to receive an error: under reject the slot is skipped, as under ignore.
        on_reject => 'row',
        group_key => p.group_key,
        group_policy => CASE WHEN p.group_key IS NULL AND NOT p.takes_from_kind THEN 'null'::jsonb END,
        group_limit => p.group_limit::integer,
        in_order => p.in_order,
        expires_at => CASE WHEN coalesce(p.expires_in = interval '0', NOT p.takes_from_kind) THEN 'infinity'::timestamptz END,
        expires_in => nullif(p.expires_in, interval '0')
    ) AS e;
END
$$;
COMMENT ON FUNCTION _insert_periodic IS 'Inserts the job of a slot of a periodic job. slot null: a job outside of the schedule.';

CREATE FUNCTION run_periodic(
    which text, was_at timestamptz, started_at timestamptz, slots timestamptz[], moves_to timestamptz
)
    RETURNS TABLE (slot timestamptz, outcome text, job uuid)
    LANGUAGE plpgsql VOLATILE
AS $$
-- Any number of runners may call this for the same slots at once. The first one to lock the row moves next_at in the same
-- transaction, and the others find it moved. Another schedule has another starts_at. If next_at is moved back by hand, the
-- slot's job id, and its key if it has one, show that the slot was run.
DECLARE
    definition periodic;
    slot_at timestamptz;
    entered record;
    latest uuid;
    ignored CONSTANT text := coalesce(current_setting('uniqueue.ignore_max_waiting', true), '');
BEGIN
    SELECT p.* INTO definition
    FROM periodic AS p
    WHERE p.name = which AND p.next_at IS NOT DISTINCT FROM was_at AND p.starts_at = run_periodic.started_at
        AND p.paused_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- The lock keeps the table and its keys. Without a key, as during a restore, a job could be inserted twice.
    PERFORM FROM job LIMIT 0;
    IF num_nulls(to_regclass('job_pkey'), to_regclass('job_unique_key')) > 0 THEN
        RETURN;
    END IF;
    -- A slot that the schedule promised is not refused. Only a superuser could set this in the function's head.
    PERFORM set_config('uniqueue.ignore_max_waiting', 'on', true);
    FOREACH slot_at IN ARRAY slots LOOP
        slot := slot_at;
        job := _slot_id(which, slot_at);
        -- The slot was run before. What its job is made of may have changed since.
        IF EXISTS (SELECT FROM job AS j WHERE j.id = run_periodic.job) THEN
            outcome := 'inserted';
            latest := job;
            RETURN NEXT;
            CONTINUE;
        END IF;
        entered := _insert_periodic(definition, slot_at, job);
        outcome := entered.outcome;
        job := CASE WHEN outcome <> 'rejected' THEN entered.id END;
        IF outcome = 'inserted' THEN
            latest := job;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('uniqueue.ignore_max_waiting', ignored, true);
    UPDATE periodic AS p
    SET next_at = moves_to,
        placed_at = clock_timestamp(),
        last_at = coalesce(slots[cardinality(slots)], p.last_at),
        last_job = coalesce(latest, p.last_job),
        problem = NULL
    WHERE p.name = which;
END
$$;
COMMENT ON FUNCTION run_periodic IS 'Inserts the jobs of these slots of a periodic job, and moves next_at on. Does so only if next_at and starts_at are what the caller saw. Returns one row per slot. The outcome is inserted, duplicate (another job claims the key) or rejected (the same, for a policy that rejects). Returns no row if another runner has run the slots, or while the table job lacks a key.';

CREATE FUNCTION set_periodic(
    name text,
    kind text DEFAULT NULL,
    schedule text DEFAULT NULL,
    time_zone text DEFAULT NULL,
    args jsonb DEFAULT NULL,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    meta jsonb DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    catch_up text DEFAULT NULL,
    expires_in interval DEFAULT NULL
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    is_new boolean;
BEGIN
    INSERT INTO periodic (name, kind, schedule, starts_at, created_at)
    SELECT set_periodic.name, set_periodic.kind, set_periodic.schedule, clock_timestamp(), clock_timestamp()
    WHERE num_nulls(set_periodic.kind, set_periodic.schedule) = 0
    ON CONFLICT ON CONSTRAINT periodic_pkey DO NOTHING;
    is_new := FOUND;
    UPDATE periodic AS p
    SET kind = coalesce(set_periodic.kind, p.kind),
        schedule = coalesce(set_periodic.schedule, p.schedule),
        time_zone = coalesce(set_periodic.time_zone, p.time_zone),
        args = coalesce(set_periodic.args, p.args),
        queue = coalesce(set_periodic.queue, p.queue),
        priority = coalesce(set_periodic.priority, p.priority),
        max_attempts = coalesce(set_periodic.max_attempts, p.max_attempts),
        meta = coalesce(set_periodic.meta, p.meta),
        unique_policy = coalesce(set_periodic.unique_policy, p.unique_policy),
        catch_up = coalesce(set_periodic.catch_up, p.catch_up),
        expires_in = coalesce(set_periodic.expires_in, p.expires_in),
        problem = NULL
    WHERE p.name = set_periodic.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('unknown periodic job: %s', coalesce(set_periodic.name, 'null')),
            HINT = 'A new one needs a kind and a schedule.';
    END IF;
    RETURN is_new;
END
$$;
COMMENT ON FUNCTION set_periodic IS 'Defines a periodic job, or changes one. A null argument leaves the value as it is. expires_in 0: the jobs do not expire. Of a new one it means the default, which the registered kind may say. Runners read the schedule within seconds. If they cannot read it, the column problem says why. Returns whether the periodic job is new. Error 22023 for an unknown name without a kind and a schedule.';

CREATE FUNCTION _run_periodic_now(name text) RETURNS TABLE (job uuid, duplicate boolean)
    LANGUAGE sql VOLATILE
AS $$
    SELECT i.id, i.duplicate
    FROM periodic AS p
    CROSS JOIN LATERAL _insert_periodic(p, slot => NULL, job_id => NULL) AS i
    WHERE p.name = _run_periodic_now.name
$$;
COMMENT ON FUNCTION _run_periodic_now IS 'Inserts a job of a periodic job outside of its schedule, paused or not. Returns the job. If another job claims the key, nothing is inserted, and the answer is that job. Returns no row for an unknown name.';

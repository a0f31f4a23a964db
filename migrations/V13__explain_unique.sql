-- What an insert would do, and why.

CREATE FUNCTION unique_key(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    meta jsonb DEFAULT '{}',
    unique_policy jsonb DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL
) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    given new_job;
BEGIN
    IF unique_policy IS NULL AND NOT EXISTS (SELECT FROM kind AS k WHERE k.name = kind COLLATE "C") THEN
        unique_policy := '{}';
    END IF;
    given := _new_job(
        kind, args, queue, meta, NULL, NULL, scheduled_at, unique_policy, NULL, false, NULL, 'null', NULL, NULL
    );
    RETURN given.unique_key;
END
$$;
COMMENT ON FUNCTION unique_key IS 'The unique key of a job: the SHA-256 of the canonical text of its parts, in lowercase hex. unique_policy has the members keys, args_keys, optional_args_keys, meta_keys, exclude_type, window, key, like, states, scope, period, ttl, until, on_conflict, update, max_items, debounce, max_delay and on_reentry (docs/reference/sql.md). What is left out is the registered kind''s. Error 22023 names it.';

CREATE FUNCTION _claim_end(unique_states smallint, until_start boolean, unique_until timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN unique_states IS NULL THEN NULL
        WHEN until_start THEN 'when a worker fetches it or it is '
        ELSE 'when it is '
    END
    -- The states in which the job does not claim its key. Running is left out if the fetch ends the claim. The last comma
    -- becomes "or".
    || coalesce(
        regexp_replace(
            nullif(
                array_to_string(
                    state_names(~(unique_states | CASE WHEN until_start THEN 64 ELSE 0 END)::smallint & 255::smallint), ', '
                ) COLLATE "C",
                ''
            ),
            ', ([a-z]+)$',
            ' or \1'
        ),
        'deleted'
    )
    || coalesce('; at the latest at ' || to_char(unique_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '');
COMMENT ON FUNCTION _claim_end IS 'When a holder''s claim ends, as a sentence. The arguments are columns of job.';

CREATE FUNCTION _explain_insert(
    given new_job,
    OUT outcome text, OUT replaced uuid, OUT new_args jsonb, OUT new_scheduled_at timestamptz, OUT answered_at timestamptz,
    OUT holder job
)
    LANGUAGE plpgsql STABLE
    -- As in _insert_one.
AS $$
DECLARE
    existing job;
    step text;
    change record;
BEGIN
    answered_at := clock_timestamp();
    IF given.on_conflict = 'update' THEN
        PERFORM _check_max_delay((given.changes).max_delay, coalesce(given.scheduled_at - answered_at, given.delay));
    END IF;
    existing := _same_job(given);
    SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = given.unique_key AND h.claims;
    IF _has_expired(holder.expires_at, holder.state, answered_at) THEN
        -- The insert discards it first.
        holder.state := 'discarded';
        holder := CASE WHEN holder.unique_states & _state_bit('discarded') <> 0 THEN holder END;
    END IF;
    step := _next_step(given.on_conflict, holder.state, holder.unique_until, holder.expires_at, answered_at);
    IF step = 'release' THEN
        -- An expired claim holds nothing.
        holder := NULL;
    END IF;
    IF existing.id IS NOT NULL THEN
        outcome := 'inserted';
        RETURN;
    END IF;
    outcome := CASE step
        WHEN 'ignore' THEN 'duplicate'
        WHEN 'reject' THEN 'rejected'
        WHEN 'cover' THEN 'covered'
        WHEN 'update' THEN 'updated'
        ELSE 'inserted'
    END;
    IF step = 'replace' THEN
        replaced := holder.id;
    ELSIF step = 'update' AND holder.updated_by = given.id THEN
        new_args := holder.args;
        new_scheduled_at := holder.scheduled_at;
    ELSIF step = 'update' THEN
        change := _updated_job(holder, ARRAY[given], answered_at);
        IF change.settled = 0 THEN
            outcome := 'inserted';
        ELSE
            new_args := change.new_args;
            new_scheduled_at := change.due;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION _explain_insert IS 'The effect that _settle_jobs would have for one job, without locks or writes. holder: the job that claims the key. new_args, new_scheduled_at: the values of the holder after an update. The function for users is explain_unique.';

CREATE FUNCTION explain_unique(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    meta jsonb DEFAULT '{}',
    priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    unique_policy jsonb DEFAULT NULL,
    id uuid DEFAULT NULL
) RETURNS TABLE (
    canonical text, unique_key text, would_claim_in text[], outcome text, replaced uuid, holder uuid, holder_state text,
    holder_age interval, claims_in text[], frees text, new_args jsonb, new_scheduled_at timestamptz
)
    LANGUAGE plpgsql STABLE ROWS 1
AS $$
DECLARE
    given new_job;
BEGIN
    given := _new_job(
        kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy, id, false, NULL, 'null', NULL, NULL
    );
    RETURN QUERY
    SELECT
        given.canonical, given.unique_key, state_names(given.unique_states), e.outcome, e.replaced, (e.holder).id,
        (e.holder).state::text, e.answered_at - (e.holder).created_at, state_names((e.holder).unique_states),
        _claim_end((e.holder).unique_states, (e.holder).until_start, (e.holder).unique_until), e.new_args, e.new_scheduled_at
    FROM _explain_insert(given) AS e;
END
$$;
COMMENT ON FUNCTION explain_unique IS 'The effect that insert_job would have with the same arguments, without locks or writes. canonical: the text whose SHA-256 is the key. Null: a raw key. would_claim_in, claims_in: the states in which the new job and the holder claim the key. frees: when the holder''s claim ends. new_args, new_scheduled_at: those of the holder after an update. Errors as insert_job.';

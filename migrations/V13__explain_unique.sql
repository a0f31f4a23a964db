-- What an insert would do, and why.

CREATE FUNCTION _claim_end(unique_states smallint, until_start boolean, unique_until timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN unique_states IS NULL THEN NULL
        WHEN until_start THEN 'when a worker fetches it or it is '
        ELSE 'when it is '
    END
    -- The states outside of the claim, less running if a fetch ends it before. The last comma becomes "or".
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
COMMENT ON FUNCTION _claim_end(smallint, boolean, timestamptz) IS
    'When a holder''s claim ends, as a sentence; the arguments are columns of job.';

CREATE FUNCTION _explain_insert(
    id uuid,
    kind text,
    queue text,
    unique_key text,
    on_conflict text,
    args jsonb,
    scheduled_at timestamptz,
    delay interval,
    OUT outcome text,
    OUT replaced uuid,
    OUT new_args jsonb,
    OUT new_scheduled_at timestamptz,
    OUT answered_at timestamptz,
    OUT holder job
)
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    -- As in _insert_unique.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    answer CONSTANT text := split_part(on_conflict, ' ', 1);
    parameters CONSTANT text[] := string_to_array(on_conflict, ' ');
    longest CONSTANT interval := CASE WHEN answer = 'update' THEN _max_delay(on_conflict) END;
    existing job;
    waits boolean;
BEGIN
    answered_at := clock_timestamp();
    IF answer = 'update' THEN
        PERFORM _check_max_delay(on_conflict, coalesce(scheduled_at - answered_at, delay));
    END IF;
    SELECT j.* INTO existing FROM job AS j WHERE j.id = _explain_insert.id;
    IF FOUND THEN
        PERFORM _check_same_job(
            id, existing.kind, existing.queue, existing.args, existing.updates IS NOT NULL, kind, queue, args
        );
    END IF;
    -- An expired claim holds nothing: the insert that meets it releases it.
    SELECT h.* INTO holder
    FROM job AS h
    WHERE h.unique_key = _explain_insert.unique_key COLLATE "C"
        AND h.claims
        AND (h.unique_until IS NULL OR h.unique_until > answered_at);
    waits := _is_waiting(holder.state);
    -- In the order of _settle_jobs.
    IF holder.id IS NULL OR existing.id IS NOT NULL THEN
        outcome := 'inserted';
    ELSIF answer = 'ignore' THEN
        outcome := 'duplicate';
    ELSIF answer = 'run_again' AND waits THEN
        outcome := 'covered';
    ELSIF answer = 'update' AND waits THEN
        outcome := 'updated';
        IF holder.updated_by = id THEN
            new_args := holder.args;
            new_scheduled_at := holder.scheduled_at;
            RETURN;
        END IF;
        PERFORM _check_same_kind(holder.id, holder.kind, kind);
        IF NOT _is_overdue(
            holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, longest, answered_at
        ) THEN
            new_args := _updated_args(holder.args, args, parameters[2], parameters[4]::integer);
        END IF;
        IF new_args IS NULL THEN
            outcome := 'inserted';
            RETURN;
        END IF;
        new_scheduled_at := _updated_schedule(
            holder.state, holder.attempted_at, holder.created_at, holder.scheduled_at, longest,
            CASE WHEN longest IS NOT NULL THEN coalesce(scheduled_at, answered_at + coalesce(delay, interval '0')) END,
            answered_at
        );
    ELSIF answer = 'preempt' OR (answer IN ('replace', 'replace_except_schedule') AND holder.state <> 'running') THEN
        outcome := 'inserted';
        replaced := holder.id;
    ELSE
        outcome := 'rejected';
    END IF;
END
$$;
COMMENT ON FUNCTION _explain_insert(uuid, text, text, text, text, jsonb, timestamptz, interval) IS
    'What _settle_jobs would do with one job, without locks or writes. The front door for people is explain_unique. holder: the job that claims the key. new_args, new_scheduled_at: what an update would make of it.';

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
    canonical text, unique_key text, outcome text, replaced uuid, holder uuid, holder_state text,
    holder_age interval, claims_in text[], frees text, new_args jsonb, new_scheduled_at timestamptz
)
    LANGUAGE sql STABLE
    ROWS 1
BEGIN ATOMIC
    SELECT
        c.canonical, c.unique_key, e.outcome, e.replaced, (e.holder).id, (e.holder).state::text,
        e.answered_at - (e.holder).created_at, state_names((e.holder).unique_states),
        _claim_end((e.holder).unique_states, (e.holder).until_start, (e.holder).unique_until),
        e.new_args, e.new_scheduled_at
    FROM _job_claim(
        explain_unique.kind, explain_unique.args, explain_unique.queue, explain_unique.meta, explain_unique.priority,
        explain_unique.max_attempts, explain_unique.scheduled_at, explain_unique.unique_policy
    ) AS c
    CROSS JOIN LATERAL _explain_insert(
        -- The caller's collation may be one that cannot split text.
        explain_unique.id, explain_unique.kind, explain_unique.queue, c.unique_key,
        coalesce(c.on_conflict, 'ignore') COLLATE "C", explain_unique.args,
        explain_unique.scheduled_at, NULL
    ) AS e;
END;
COMMENT ON FUNCTION explain_unique(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'What insert_job would do with the same arguments, and why; without locks or writes, so another transaction may change it meanwhile.
canonical: the text whose SHA-256 is the key; null for a raw key. outcome, replaced: as insert_job would answer; inserted also where a job has the id already, and where an update finds the holder full. holder, holder_state, holder_age: the job that claims the key, since its created_at; null where the key is free. claims_in: the states in which the holder claims it. frees: when its claim ends. new_args, new_scheduled_at: the holder''s after the update, where outcome is updated.
Errors 22023 as insert_job.';

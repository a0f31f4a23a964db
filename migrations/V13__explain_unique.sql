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
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
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
COMMENT ON FUNCTION unique_key(text, jsonb, text, jsonb, jsonb, timestamptz) IS
    'The unique key that a policy makes from a job: the SHA-256, in lowercase hexadecimal, of the canonical text of its parts. The Rust library makes the same key.
kind: 1 to 128 bytes, no control characters.
args: default {}.
queue: default "default".
meta: an object. Default {}.
scheduled_at: decides the window. Default: now.
An argument that is left out, or null, is taken from the kind if the kind is registered (register_kind).
unique_policy: an object. Default {}, which makes the key from the kind alone. ''null''::jsonb: no key. All members are optional:
  keys: a list of type (always included), queue, args, meta.
  args_keys, optional_args_keys: parts of the args, by name or JSON Pointer. The optional ones may be missing.
  meta_keys: parts of the meta. They may be missing.
  exclude_type: true leaves the type out of the key.
  window: a length of whole seconds. The window is part of the key.
  key: a raw key of 1 to 512 bytes, in place of the parts.
  like: faktory (needs ttl), ojs, river or zizq. Members that are left out have the defaults of that queue. river alone is not unique.
  states: a list of the states in which the job claims its key. active means running.
  scope: queued, active (default), completed or exists, in place of states.
  period: the claim ends this long after created_at.
  ttl: the claim ends this long after the later of created_at and scheduled_at. Years and months are added in UTC.
  until: start (the fetch ends the claim) or success (all states but completed).
  on_conflict: ignore (default), reject, replace, replace_except_schedule, preempt, update, or run_again (needs states without running).
  update: how a duplicate changes the args of a waiting holder: latest (default of on_conflict update), merge or append.
  max_items: with append, the most items of an array, 1 to 1000000. Default 1000.
  debounce: the job is due this long after its latest duplicate, unless the insert gives scheduled_at. Needs max_delay.
  max_delay: a duplicate moves the time of a waiting holder to its own time, at most to this long after the holder''s created_at. Default: the time is kept.
  on_reentry: go_on (default) or discard.
update, max_items, debounce and max_delay mean on_conflict update. A length is short, such as 90s, 1h30m or 7d (w, d, h, m, s, ms, us), or an ISO 8601 duration, such as PT15M or P1M.
Error 22023 names the argument or the member that is invalid.';

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
COMMENT ON FUNCTION _claim_end(smallint, boolean, timestamptz) IS
    'When a holder''s claim ends, as a sentence. The arguments are columns of job.';

CREATE FUNCTION _explain_insert(
    given new_job,
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
    answer CONSTANT text := split_part(given.on_conflict, ' ', 1);
    existing job;
    step text;
    change record;
BEGIN
    answered_at := clock_timestamp();
    IF answer = 'update' THEN
        PERFORM _check_max_delay(given.on_conflict, coalesce(given.scheduled_at - answered_at, given.delay));
    END IF;
    existing := _same_job(given);
    SELECT h.* INTO holder FROM job AS h WHERE h.unique_key = given.unique_key AND h.claims;
    IF _has_expired(holder.expires_at, holder.state, answered_at) THEN
        -- The insert discards it first.
        holder.state := 'discarded';
        holder := CASE WHEN holder.unique_states & _state_bit('discarded') <> 0 THEN holder END;
    END IF;
    step := _next_step(answer, holder.state, holder.unique_until, holder.expires_at, answered_at);
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
COMMENT ON FUNCTION _explain_insert(new_job) IS
    'The effect that _settle_jobs would have for one job, without locks or writes. holder: the job that claims the key. new_args, new_scheduled_at: the values of the holder after an update. The function for users is explain_unique.';

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
    LANGUAGE plpgsql STABLE
    ROWS 1
    SET search_path FROM CURRENT
AS $$
DECLARE
    given new_job;
    explained record;
    held job;
BEGIN
    given := _new_job(
        kind, args, queue, meta, priority, max_attempts, scheduled_at, unique_policy, id, false, NULL, 'null', NULL, NULL
    );
    explained := _explain_insert(given);
    held := explained.holder;
    canonical := given.canonical;
    unique_key := given.unique_key;
    would_claim_in := state_names(given.unique_states);
    outcome := explained.outcome;
    replaced := explained.replaced;
    holder := held.id;
    holder_state := held.state;
    holder_age := explained.answered_at - held.created_at;
    claims_in := state_names(held.unique_states);
    frees := _claim_end(held.unique_states, held.until_start, held.unique_until);
    new_args := explained.new_args;
    new_scheduled_at := explained.new_scheduled_at;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION explain_unique(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb, uuid) IS
    'The effect that insert_job would have with the same arguments, and the reason. It locks and writes nothing, so another transaction may change the answer before the insert.
canonical: the text whose SHA-256 is the key. Null: a raw key.
would_claim_in: the states in which the new job would claim the key. A raw key is claimed while the job is active, unless the policy says otherwise.
outcome, replaced: as insert_job would return them. inserted also means that a job already has the id, or that an update finds the holder full.
holder, holder_state, holder_age: the job that claims the key, and its age since created_at. Null: the key is free.
claims_in: the states in which the holder claims the key.
frees: when the claim of the holder ends.
new_args, new_scheduled_at: those of the holder after the update, if outcome is updated.
Errors as insert_job.';

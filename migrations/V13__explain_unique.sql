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
    'The unique key that a job gets by a policy: lowercase hex SHA-256 of its fingerprint''s canonical text, the same as the Rust library makes.
kind: 1 to 128 bytes, no control characters. args: default {}. queue: default "default". meta: an object, default {}. scheduled_at: decides the window; default now.
What is left out, or null, is taken from the kind where it is registered (register_kind).
unique_policy: an object; default {}, the kind alone; ''null''::jsonb: no key. Members, all optional:
  keys: list of type (always in), queue, args, meta.
  args_keys, optional_args_keys: parts of the args, by name or JSON Pointer; the optional ones may be missing.
  meta_keys: parts of the meta; may be missing.
  exclude_type: true leaves the type out.
  window: a length of whole seconds; the window is part of the key.
  key: a raw key of 1 to 512 bytes, which stands alone.
  like: faktory (needs ttl), ojs, river or zizq: the defaults of that queue where the document has no member of its own. river alone is not unique.
  states: list of states in which the job claims its key (active is running); or
  scope: queued, active (default), completed, exists.
  period: the claim ends so long after created_at; ttl: after the later of created_at and scheduled_at. Years and months are added in UTC.
  until: start (the fetch ends the claim) or success (all states but completed).
  on_conflict: ignore (default), reject, replace, replace_except_schedule, preempt, update, run_again (needs states without running).
  update: how a duplicate changes the args of a holder that waits: latest (default with on_conflict update), merge or append; max_items: with append, 1 to 1000000, default 1000.
  debounce: the job is due so long after its latest duplicate, where the insert gives no scheduled_at; needs max_delay.
  max_delay: a duplicate moves the time of a holder that waits to its own, at most to so long after the holder''s created_at; default: the time is kept.
  on_reentry: go_on (default) or discard.
A length is short, as 90s, 1h30m or 7d (w, d, h, m, s, ms, us), or an ISO 8601 duration, as PT15M or P1M. update, max_items, debounce and max_delay mean on_conflict update.
Errors 22023, naming the argument or the member: anything else.';

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
    step := _next_step(answer, holder.state, holder.unique_until, answered_at);
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
    'What _settle_jobs would do with one job, without locks or writes. The front door for people is explain_unique. holder: the job that claims the key. new_args, new_scheduled_at: what an update would make of it.';

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
    'What insert_job would do with the same arguments, and why; without locks or writes, so another transaction may change it meanwhile.
canonical: the text whose SHA-256 is the key; null for a raw key. would_claim_in: the states in which the new job would claim the key: a raw key of a policy while the job is active, unless the policy says otherwise. outcome, replaced: as insert_job would answer; inserted also where a job has the id already, and where an update finds the holder full. holder, holder_state, holder_age: the job that claims the key, since its created_at; null where the key is free. claims_in: the states in which the holder claims it. frees: when its claim ends. new_args, new_scheduled_at: the holder''s after the update, where outcome is updated.
Errors 22023 as insert_job.';

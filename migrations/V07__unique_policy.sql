-- What a unique policy says, and the key that it makes.
-- Rust reads the same documents and makes the same keys (src/unique).

CREATE FUNCTION _refuse_policy(
    member text, problem text, document jsonb DEFAULT NULL, about text[] DEFAULT '{}', hint text DEFAULT NULL
) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    -- As given, in canonical text, of which the first 80 characters.
    shown CONSTANT text := (
        SELECT string_agg(left(canonical_json(document -> a.name), 80), ' and ' ORDER BY a.place)
        FROM unnest(about) WITH ORDINALITY AS a (name, place)
    );
    message CONSTANT text := concat_ws(': ', 'invalid unique policy', member, problem, shown);
BEGIN
    PERFORM _refuse(message) WHERE hint IS NULL;
    RAISE invalid_parameter_value USING MESSAGE = message, HINT = hint;
END
$$;
COMMENT ON FUNCTION _refuse_policy IS 'Raises error 22023 for a unique policy, with the member, the problem, and the values of members in about.';

CREATE FUNCTION _policy_length(given text, member text) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
-- Not a cast to interval alone, which takes signs and words, rounds, and counts days by the time zone.
DECLARE
    span interval;
    months numeric;
    seconds numeric;
    problem text;
BEGIN
    IF octet_length(given) > 64 OR right(given, 1) IN ('P', 'T', '') OR given COLLATE "C" !~ (
        '^(?:P(?:[0-9]+(?:[.,][0-9]+)?Y)?(?:[0-9]+(?:[.,][0-9]+)?M)?(?:[0-9]+(?:[.,][0-9]+)?W)?(?:[0-9]+(?:[.,][0-9]+)?D)?'
        '(?:T(?:[0-9]+(?:[.,][0-9]+)?H)?(?:[0-9]+(?:[.,][0-9]+)?M)?(?:[0-9]+(?:[.,][0-9]+)?S)?)?'
        '|(?:[0-9]+(?:[.,][0-9]+)?w)?(?:[0-9]+(?:[.,][0-9]+)?d)?(?:[0-9]+(?:[.,][0-9]+)?h)?(?:[0-9]+(?:[.,][0-9]+)?m)?'
        '(?:[0-9]+(?:[.,][0-9]+)?s)?(?:[0-9]+(?:[.,][0-9]+)?ms)?(?:[0-9]+(?:[.,][0-9]+)?us)?)$'
    ) THEN
        problem := 'is not a length of time';
    ELSIF given COLLATE "C" ~ '[.,][0-9]+[A-Za-z]+[0-9]' THEN
        problem := 'only the last unit may have a fraction';
    ELSIF split_part(given, 'T', 1) COLLATE "C" ~ '[.,][0-9]+[YM]' THEN
        problem := 'years and months must be whole numbers';
    ELSIF given COLLATE "C" !~ '[.,]|[0-9]{8}' THEN
        -- Nothing can be rounded, or too large for an interval.
        span := regexp_replace(given COLLATE "C", '([a-z])([0-9])', '\1 \2', 'g')::interval;
        months := extract(year FROM span) * 12 + extract(month FROM span);
        seconds := extract(epoch FROM span - make_interval(months => months::integer));
    ELSE
        SELECT sum(f.figure * u.months), sum(f.figure * u.seconds)
        INTO months, seconds
        FROM (VALUES (split_part(given, 'T', 1), ''), (split_part(given, 'T', 2), 'T')) AS h (half, mark)
        CROSS JOIN LATERAL regexp_matches(h.half COLLATE "C", '([0-9.,]+)([A-Za-z]+)', 'g') AS p (part)
        CROSS JOIN LATERAL (SELECT replace(p.part[1], ',', '.')::numeric) AS f (figure)
        JOIN (VALUES
            ('Y', 12, 0), ('M', 1, 0), ('W', 0, 604800), ('D', 0, 86400), ('TH', 0, 3600), ('TM', 0, 60), ('TS', 0, 1),
            ('w', 0, 604800), ('d', 0, 86400), ('h', 0, 3600), ('m', 0, 60), ('s', 0, 1), ('ms', 0, 0.001), ('us', 0, 0.000001)
        ) AS u (unit, months, seconds) ON u.unit = (h.mark || ltrim(p.part[2], 'P')) COLLATE "C";
    END IF;
    problem := CASE
        WHEN problem IS NOT NULL THEN problem
        -- A month on average.
        WHEN months * 2629800 + seconds > 3155760000 THEN 'must not be longer than 100 years'
        WHEN seconds * 1000000 <> trunc(seconds * 1000000) THEN 'must be whole microseconds'
        WHEN months + seconds = 0 THEN 'must be longer than nothing'
        WHEN months > 0 AND member NOT IN ('period', 'ttl') THEN 'years and months have no fixed length'
        WHEN member = 'window' AND seconds <> trunc(seconds) THEN 'must be whole seconds'
    END;
    IF problem IS NOT NULL THEN
        PERFORM _refuse_policy(
            member, problem, jsonb_build_object(member, given), ARRAY[member], 'a length such as 15m, 7d or PT15M'
        );
    END IF;
    RETURN make_interval(months => months::integer) + (seconds * 1000000)::bigint * interval '1 microsecond';
END
$$;
COMMENT ON FUNCTION _policy_length IS 'A length of time in a member of a policy: calendar months, and an exact time in which a day has 24 hours. given: a short length such as 90s, 1h30m or 7d (w, d, h, m, s, ms, us), or an ISO 8601 duration. Error 22023: any other text, more than 64 bytes, a length of zero, more than 100 years, or parts of a microsecond. Only period and ttl may have years and months. A window has whole seconds.';

CREATE FUNCTION _length_after(instant timestamptz, length interval) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- The planner inlines the expression. The CASE spares the lookup of the time zone where there is no length.
    RETURN CASE WHEN length IS NOT NULL THEN (instant AT TIME ZONE 'UTC' + length) AT TIME ZONE 'UTC' END;
COMMENT ON FUNCTION _length_after IS 'The time that is this length after an instant. Months are added in UTC. Null: the length is null.';

CREATE FUNCTION _window_text(instant timestamptz, seconds numeric) RETURNS text
    -- STABLE as to_char is. An IMMUTABLE function that calls a STABLE one is not inlined.
    LANGUAGE sql STABLE PARALLEL SAFE
    -- -62135596800 is Monday 0001-01-01 00:00 UTC in Unix seconds. div is exact, while / rounds the
    -- last microsecond of a window up into the next.
    RETURN to_char(
        to_timestamp(div(extract(epoch FROM instant) + 62135596800, seconds) * seconds - 62135596800)
            AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS"Z/PT"'
    ) || trunc(seconds) || 'S';
COMMENT ON FUNCTION _window_text IS 'The window of an instant, as the key contains it, such as 2026-02-12T15:15:00Z/PT900S. Windows are multiples of the length, counted from Monday 0001-01-01 00:00 UTC in every session''s time zone.';

CREATE FUNCTION _part_path(part text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE
        WHEN left(part, 1) <> '/' THEN ARRAY[part]
        -- Of "/" the only segment is the empty name.
        WHEN part = '/' THEN ARRAY['']
        ELSE ARRAY(
            SELECT replace(replace(s.segment, '~1', '/'), '~0', '~')
            FROM unnest(string_to_array(substr(part, 2), '/')) WITH ORDINALITY AS s (segment, place)
            ORDER BY s.place
        )
    END;
COMMENT ON FUNCTION _part_path IS 'The path to a selected part: a top-level member, literally, or a JSON Pointer that starts with /.';

CREATE FUNCTION _check_pointers(member text, parts jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    PERFORM _refuse_policy(member, p.problem, jsonb_build_object(member, p.part), ARRAY[member])
    FROM (
        SELECT
            e.part,
            CASE
                WHEN left(e.part, 1) <> '/' THEN NULL
                WHEN length(e.part) - length(replace(e.part, '/', '')) > 127 THEN 'must not be deeper than 127 levels'
                WHEN e.part COLLATE "C" ~ '~([^01]|$)' THEN 'in a JSON Pointer ~ must be written ~0 and / within a name ~1'
            END AS problem
        FROM jsonb_array_elements_text(parts) AS e (part)
    ) AS p
    WHERE p.problem IS NOT NULL;
END
$$;
COMMENT ON FUNCTION _check_pointers IS 'Raises error 22023 for the first malformed JSON Pointer of a member of the policy.';

CREATE FUNCTION _add_part(source jsonb, path text[], chosen jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    name CONSTANT text := path[1];
    place integer;
    part jsonb;
BEGIN
    IF name IS NULL THEN
        RETURN source;
    ELSIF jsonb_typeof(source) = 'object' THEN
        part := _add_part(source -> name, path[2:], chosen -> name);
        RETURN CASE
            WHEN part IS NULL THEN NULL
            WHEN jsonb_typeof(chosen) = 'object' THEN chosen || jsonb_build_object(name, part)
            ELSE jsonb_build_object(name, part)
        END;
    ELSIF jsonb_typeof(source) = 'array' AND name COLLATE "C" ~ '^(0|[1-9][0-9]{0,8})$' THEN
        place := name;
        part := _add_part(source -> place, path[2:], chosen -> place);
        RETURN CASE WHEN part IS NOT NULL THEN (
            -- Items before the last chosen one that were not chosen are null.
            SELECT jsonb_agg(CASE i.i WHEN place THEN part ELSE coalesce(chosen -> i.i, 'null') END ORDER BY i.i)
            FROM generate_series(
                0,
                greatest(place, CASE jsonb_typeof(chosen) WHEN 'array' THEN jsonb_array_length(chosen) - 1 END)
            ) AS i (i)
        ) END;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION _add_part IS 'The parts selected so far and the part of source at path, nested as there. Null: source has no such part.';

CREATE FUNCTION _chosen_parts(source jsonb, parts jsonb, is_required boolean, chosen jsonb DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    part text;
    more jsonb;
BEGIN
    FOR place IN 0..coalesce(jsonb_array_length(parts), 0) - 1 LOOP
        part := parts ->> place;
        IF jsonb_typeof(source) = 'object' AND left(part, 1) <> '/' THEN
            -- The usual case, a member by its name, without the calls.
            more := CASE WHEN source ? part THEN coalesce(chosen, '{}') || jsonb_build_object(part, source -> part) END;
        ELSE
            more := _add_part(source, _part_path(part), chosen);
        END IF;
        IF more IS NULL AND is_required THEN
            PERFORM _refuse_policy('args_keys', format('the job has no member %s', to_json(part)));
        END IF;
        chosen := coalesce(more, chosen);
    END LOOP;
    RETURN chosen;
END
$$;
COMMENT ON FUNCTION _chosen_parts IS 'The parts selected so far and these of source. A missing one is error 22023 if is_required, or left out.';

CREATE FUNCTION _policy_words(member text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE member
        WHEN 'keys' THEN ARRAY['type', 'queue', 'args', 'meta']
        WHEN 'scope' THEN ARRAY['queued', 'active', 'completed', 'exists']
        WHEN 'states' THEN state_names(255::smallint)
        WHEN 'on_conflict' THEN ARRAY['ignore', 'reject', 'replace', 'replace_except_schedule', 'preempt', 'update', 'run_again']
        WHEN 'update' THEN ARRAY['latest', 'merge', 'append']
        WHEN 'until' THEN ARRAY['success', 'start']
        WHEN 'on_reentry' THEN ARRAY['go_on', 'discard']
        WHEN 'like' THEN ARRAY['faktory', 'ojs', 'river', 'zizq']
    END;
COMMENT ON FUNCTION _policy_words IS 'The words that a member of a policy accepts. states also accepts active, which means running.';

CREATE FUNCTION _scope_states(scope text) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- available 1, pending 16, retryable 32 and scheduled 128; then running 64, completed 4, cancelled 2 and discarded 8.
    RETURN (CASE scope WHEN 'queued' THEN 177 WHEN 'active' THEN 241 WHEN 'completed' THEN 245 WHEN 'exists' THEN 255 ELSE 251 END)::smallint;
COMMENT ON FUNCTION _scope_states IS 'The states of a scope as a bitmask. until_success means all states but completed, as Faktory has it.';

CREATE FUNCTION _refuse_member(member text, given jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    words CONSTANT text[] := _policy_words(member);
    problem text;
BEGIN
    IF member = 'exclude_type' THEN
        problem := 'must be true or false';
    ELSIF member = 'max_items' THEN
        problem := 'must be 1 to 1000000';
    ELSIF member IN ('keys', 'states', 'args_keys', 'optional_args_keys', 'meta_keys') THEN
        IF jsonb_typeof(given) <> 'array' OR jsonb_path_exists(given, 'strict $[*] ? (@.type() != "string")') THEN
            problem := 'must be a list of strings';
        ELSE
            -- The first that is none of them.
            given := CASE member WHEN 'states' THEN given - words - 'active'::text ELSE given - words END -> 0;
        END IF;
    ELSIF jsonb_typeof(given) <> 'string' THEN
        problem := 'must be a string';
    END IF;
    PERFORM _refuse_policy(
        member, coalesce(problem, 'must be one of ' || array_to_string(words, ', ')), jsonb_build_object(member, given),
        ARRAY[member]
    );
END
$$;
COMMENT ON FUNCTION _refuse_member IS 'Raises error 22023 for a member of a policy whose value _read_unique_policy cannot read.';

CREATE FUNCTION _check_key_members(document jsonb, has_args boolean, has_meta boolean) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    key_makers CONSTANT text[] :=
        ARRAY['keys', 'args_keys', 'optional_args_keys', 'meta_keys', 'window', 'exclude_type'];
    args_keys CONSTANT jsonb := nullif(document -> 'args_keys', 'null');
    optional_args_keys CONSTANT jsonb := nullif(document -> 'optional_args_keys', 'null');
    meta_keys CONSTANT jsonb := coalesce(nullif(document -> 'meta_keys', 'null'), '[]');
BEGIN
    IF document ? 'key' AND document ?| key_makers THEN
        PERFORM _refuse_policy('key', 'stands alone, without ' || (
            SELECT m.name FROM unnest(key_makers) WITH ORDINALITY AS m (name, place) WHERE document ? m.name ORDER BY m.place LIMIT 1
        ));
    ELSIF NOT has_args AND args_keys <> '[]' THEN
        PERFORM _refuse_policy('args_keys', 'needs "args" in keys', document, '{args_keys}');
    ELSIF NOT has_args AND optional_args_keys <> '[]' THEN
        PERFORM _refuse_policy('optional_args_keys', 'needs "args" in keys', document, '{optional_args_keys}');
    ELSIF NOT has_meta AND meta_keys <> '[]' THEN
        PERFORM _refuse_policy('meta_keys', 'needs "meta" in keys', document, '{meta_keys}');
    ELSIF has_args AND coalesce(args_keys, optional_args_keys) = '[]' THEN
        PERFORM _refuse_policy(
            CASE WHEN args_keys IS NULL THEN 'optional_args_keys' ELSE 'args_keys' END, 'must name at least one member: []'
        );
    ELSIF has_meta AND meta_keys = '[]' THEN
        PERFORM _refuse_policy('meta_keys', 'must name at least one member: []');
    ELSIF document -> 'exclude_type' = 'true' AND document -> 'keys' ? 'type' THEN
        PERFORM _refuse_policy('exclude_type', 'contradicts "type" in keys: true');
    END IF;
END
$$;
COMMENT ON FUNCTION _check_key_members IS 'Raises error 22023 if members of a policy that make its key exclude or need each other.';

CREATE FUNCTION _check_claim_members(document jsonb, unique_states smallint, max_delay interval, period_length interval)
    RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    -- Members that are null are absent.
    has CONSTANT jsonb := jsonb_strip_nulls(document);
    of_update CONSTANT text := (
        SELECT m.name FROM unnest('{update,debounce,max_delay,max_items}'::text[]) AS m (name) WHERE has ? m.name LIMIT 1
    );
    until_start CONSTANT boolean := coalesce(has ->> 'until' = 'start', false);
    first_limit CONSTANT text := CASE WHEN has ? 'period' THEN 'period' WHEN has ? 'ttl' THEN 'ttl' END;
    last_limit CONSTANT text := CASE WHEN has ?& '{period,ttl}' THEN 'ttl' WHEN has ? 'window' THEN 'window' END;
BEGIN
    IF has ->> 'like' = 'faktory' AND NOT has ? 'ttl' THEN
        PERFORM _refuse_policy('like', 'faktory needs ttl, which is its unique_for: "faktory"');
    ELSIF has ?& '{scope,states}' THEN
        PERFORM _refuse_policy('scope', 'stands beside states, which say the same', document, '{scope}');
    ELSIF of_update IS NOT NULL AND has ->> 'on_conflict' <> 'update' THEN
        PERFORM _refuse_policy(of_update, 'needs on_conflict update', document, '{on_conflict}', 'remove on_conflict');
    ELSIF unique_states = 0 THEN
        PERFORM _refuse_policy('states', 'must name at least one state: []');
    ELSIF until_start AND unique_states & _scope_states('queued') = 0 THEN
        PERFORM _refuse_policy('until', 'start ends the claim at the fetch, and the states hold none before it: '
            || array_to_string(state_names(unique_states), ', '));
    ELSIF first_limit IS NOT NULL AND last_limit IS NOT NULL THEN
        PERFORM _refuse_policy(
            last_limit, format('stands beside %s, and only one of period, ttl and window may limit time', first_limit),
            document, ARRAY[last_limit, first_limit],
            'period counts from the insert, ttl from when the job is due, window by the calendar'
        );
    ELSIF has ->> 'on_conflict' = 'run_again' AND NOT until_start AND 'running' = ANY (state_names(unique_states)) THEN
        PERFORM _refuse_policy(
            'on_conflict', 'run_again needs a scope without running: ' || array_to_string(state_names(unique_states), ', '),
            hint => 'use the scope queued: a job that runs has read its data already'
        );
    ELSIF has ? 'debounce' AND max_delay IS NULL THEN
        PERFORM _refuse_policy(
            'debounce', 'needs max_delay', document, '{debounce}',
            'give the longest wait, such as 1m: events that never end would hold the job up'
        );
    ELSIF has ? 'debounce' AND _policy_length(has ->> 'debounce', 'debounce') >= max_delay THEN
        PERFORM _refuse_policy(
            'max_delay', 'must be longer than debounce', document, '{max_delay,debounce}', 'raise max_delay'
        );
    ELSIF has ? 'max_items' AND has ->> 'update' IS DISTINCT FROM 'append' THEN
        PERFORM _refuse_policy('max_items', 'needs update append', document, '{max_items}', 'add it, or remove max_items');
    -- Months and a time are all that a period has. A month has 28 days at least.
    ELSIF extract(epoch FROM max_delay) > extract(epoch FROM period_length - date_trunc('month', period_length))
        + (extract(year FROM period_length) * 12 + extract(month FROM period_length)) * 2419200
    THEN
        PERFORM _refuse_policy(
            'max_delay', 'must not be longer than period', document, '{max_delay,period}',
            'raise period, or lower max_delay'
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _check_claim_members IS 'Raises error 22023 if members of a policy that describe its claim exclude or need each other.';

CREATE TYPE update_terms AS (
    args text,
    max_delay interval,
    max_items integer
);
COMMENT ON TYPE update_terms IS 'How a duplicate updates the holder of its key. args: latest, merge or append. max_delay: the longest delay that updates give the holder, from its insert. Null: the holder keeps its time. max_items: the most items of an array after an append.';

CREATE FUNCTION _read_unique_policy(
    document jsonb,
    OUT key text, OUT has_type boolean, OUT has_queue boolean, OUT has_args boolean, OUT has_meta boolean,
    OUT args_keys jsonb, OUT optional_args_keys jsonb, OUT meta_keys jsonb, OUT period_length interval,
    OUT ttl_length interval, OUT window_length numeric, OUT debounce interval, OUT unique_states smallint,
    OUT until_start boolean, OUT discard_on_reentry boolean, OUT on_conflict text, OUT changes update_terms,
    OUT is_enforced boolean
)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
-- Simple expressions, which PL/pgSQL evaluates without a statement, and calls only for members that are there.
DECLARE
    member text;
    given jsonb;
    word text;
    is_read boolean;
    keys jsonb := document -> 'keys';
    preset CONSTANT text := document ->> 'like';
    until CONSTANT text := document ->> 'until';
    update_args CONSTANT text := document ->> 'update';
    max_delay interval;
    max_items CONSTANT text := document ->> 'max_items';
BEGIN
    IF jsonb_typeof(document) <> 'object' THEN
        PERFORM _refuse_policy('unique_policy', 'must be an object', jsonb_build_object('', document), ARRAY['']);
    END IF;
    FOR member, given IN SELECT e.key, e.value FROM jsonb_each(document) AS e LOOP
        word := given #>> '{}';
        is_read := CASE
            WHEN member = 'keys' THEN CASE jsonb_typeof(given) WHEN 'array' THEN given - _policy_words('keys') = '[]' END
            WHEN member IN ('scope', 'on_conflict', 'update', 'until', 'on_reentry', 'like') THEN
                word = ANY (_policy_words(member))
            WHEN member IN ('args_keys', 'optional_args_keys', 'meta_keys') THEN given = 'null'
                OR (jsonb_typeof(given) = 'array' AND NOT jsonb_path_exists(given, 'strict $[*] ? (@.type() != "string")'))
            WHEN member = 'states' THEN
                CASE jsonb_typeof(given) WHEN 'array' THEN given - _policy_words('states') - 'active'::text = '[]' END
            WHEN member = 'key' THEN jsonb_typeof(given) = 'string'
            WHEN member = 'exclude_type' THEN jsonb_typeof(given) = 'boolean'
            WHEN member = 'max_items' THEN jsonb_typeof(given) = 'number' AND _is_whole(given, 1, 1000000)
            WHEN member IN ('period', 'ttl', 'window', 'debounce', 'max_delay') THEN jsonb_typeof(given) IN ('string', 'null')
            ELSE _refuse_policy('unknown member', left(_canonical_part(to_jsonb(member), false), 80))
        END;
        IF is_read IS NOT TRUE THEN
            PERFORM _refuse_member(member, given);
        END IF;
        CASE member
            WHEN 'args_keys', 'optional_args_keys', 'meta_keys' THEN
                IF given::text COLLATE "C" LIKE '%"/%' THEN
                    PERFORM _check_pointers(member, given);
                END IF;
            WHEN 'scope' THEN unique_states := _scope_states(word);
            WHEN 'states' THEN
                unique_states := (given ? 'available')::integer + (given ? 'cancelled')::integer * 2
                    + (given ? 'completed')::integer * 4 + (given ? 'discarded')::integer * 8
                    + (given ? 'pending')::integer * 16 + (given ? 'retryable')::integer * 32
                    + (given ?| '{active,running}')::integer * 64 + (given ? 'scheduled')::integer * 128;
            WHEN 'period' THEN period_length := _policy_length(word, member);
            WHEN 'ttl' THEN ttl_length := _policy_length(word, member);
            WHEN 'window' THEN window_length := extract(epoch FROM _policy_length(word, member));
            WHEN 'debounce' THEN debounce := _policy_length(word, member);
            WHEN 'max_delay' THEN max_delay := _policy_length(word, member);
            ELSE NULL;
        END CASE;
    END LOOP;
    key := document ->> 'key';
    has_type := coalesce(document ->> 'exclude_type' = 'false', true);
    args_keys := nullif(document -> 'args_keys', 'null');
    optional_args_keys := nullif(document -> 'optional_args_keys', 'null');
    meta_keys := nullif(document -> 'meta_keys', 'null');
    discard_on_reentry := coalesce(document ->> 'on_reentry' = 'discard', false);
    on_conflict := document ->> 'on_conflict';

    -- As in River, nothing but its own defaults is no uniqueness at all.
    is_enforced := preset IS DISTINCT FROM 'river' OR NOT has_type OR coalesce(keys::text, key, until) IS NOT NULL
        OR unique_states IS NOT NULL OR coalesce(period_length, ttl_length) IS NOT NULL OR window_length IS NOT NULL;
    keys := coalesce(keys, CASE preset WHEN 'faktory' THEN '["queue", "args"]'::jsonb WHEN 'zizq' THEN '["args"]' ELSE '[]' END);
    has_queue := keys ? 'queue';
    has_args := keys ? 'args';
    has_meta := keys ? 'meta';
    until_start := coalesce(until = 'start', false);
    unique_states := coalesce(unique_states, _scope_states(CASE
        WHEN until = 'success' OR preset = 'faktory' THEN 'until_success'
        WHEN preset = 'river' THEN 'completed'
        WHEN preset = 'zizq' THEN 'queued'
        ELSE 'active'
    END));
    IF has_meta OR document ?| '{key,args_keys,optional_args_keys,meta_keys,exclude_type}' THEN
        PERFORM _check_key_members(document, has_args, has_meta);
    END IF;
    IF document ?| '{like,states,until,period,ttl,window,update,debounce,max_delay,max_items}' OR on_conflict = 'run_again' THEN
        PERFORM _check_claim_members(document, unique_states, max_delay, period_length);
    END IF;
    IF on_conflict = 'update' OR coalesce(update_args, max_items) IS NOT NULL OR max_delay IS NOT NULL THEN
        on_conflict := 'update';
        changes := (coalesce(update_args, 'latest'), max_delay, coalesce(max_items::numeric::integer, 1000));
    END IF;
    on_conflict := coalesce(on_conflict, CASE WHEN preset IN ('faktory', 'ojs') THEN 'reject' ELSE 'ignore' END);
    IF update_args = 'append' AND key IS NULL AND has_args AND args_keys IS NULL AND optional_args_keys IS NULL THEN
        PERFORM _refuse_policy('update', 'append would change the args, which are all in the key: "append"');
    ELSIF NOT (has_type OR has_queue OR has_args OR has_meta) AND window_length IS NULL THEN
        PERFORM _refuse_policy('exclude_type', 'leaves nothing to make a key from: true');
    ELSIF octet_length(key) NOT BETWEEN 1 AND 512 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'invalid unique key: must %s: %s',
            CASE key WHEN '' THEN 'not be empty' ELSE 'not be longer than 512 bytes' END, to_json(left(key, 80))
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _read_unique_policy IS 'Reads the document of a policy strictly: the members in the order of jsonb, then the rules between them. window_length: in seconds. unique_states: the bitmask of job.unique_states. changes: what an update changes. Null: another on_conflict. Error 22023 names the invalid member.';

CREATE FUNCTION _name_problem(what text, name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN what || ': ' || CASE
        WHEN name IS NULL THEN 'must not be null'
        WHEN name = '' THEN 'must not be empty: ""'
        WHEN octet_length(name) > 128 THEN 'must not be longer than 128 bytes: ' || to_json(name)::text
        WHEN name COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN 'must not hold control characters: ' || to_json(name)::text
    END;
COMMENT ON FUNCTION _name_problem IS 'The rule that the name of a kind or a queue (what) breaks. Null: the name is valid.';

CREATE FUNCTION _check_job(
    kind text, args jsonb, queue text, meta jsonb, priority integer, max_attempts integer, scheduled_at timestamptz
) RETURNS void
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    max_args_bytes CONSTANT bigint := coalesce(nullif(current_setting('uniqueue.max_args_bytes', true), ''), '1048576');
    -- Text of more than 1 GB cannot be made. The stored form is at most some four times as long as the text.
    args_bytes CONSTANT bigint := CASE
        WHEN pg_column_size(args) > 8 * max_args_bytes THEN pg_column_size(args)
        ELSE octet_length(args::text)
    END;
    problem text;
BEGIN
    problem := CASE
        WHEN _name_problem('kind', kind) IS NOT NULL THEN _name_problem('kind', kind)
        WHEN _name_problem('queue', queue) IS NOT NULL THEN _name_problem('queue', queue)
        WHEN priority NOT BETWEEN -32768 AND 32767 THEN format('priority: must be -32768 to 32767: %s', priority)
        WHEN max_attempts NOT BETWEEN 1 AND 32767 THEN format('max_attempts: must be 1 to 32767: %s', max_attempts)
        WHEN scheduled_at < '0001-01-01 00:00:00+00' OR scheduled_at >= '9001-01-01 00:00:00+00' THEN
            format('scheduled_at: must be in the years 1 to 9000: %s', scheduled_at)
        WHEN args IS NULL THEN format('args of %s: must not be null', to_json(kind))
        WHEN args_bytes > max_args_bytes THEN
            format('args of %s: longer than %s bytes: %s bytes', to_json(kind), max_args_bytes, args_bytes)
        -- More than the 127 levels that the Rust library reads back, each of at least two bytes.
        WHEN args_bytes >= 256 AND jsonb_path_exists(args, 'strict $.**{127} ? (@.type() == "array" || @.type() == "object")') THEN
            format('args of %s: values nest too deeply: "more than 127 levels"', to_json(kind))
        WHEN meta = '{}' THEN NULL
        WHEN meta IS NULL THEN format('meta of %s: must not be null', to_json(kind))
        WHEN jsonb_typeof(meta) <> 'object' THEN
            format('meta of %s: must be an object: %s', to_json(kind), left(meta::text, 80))
        WHEN pg_column_size(meta) > 8388608 OR octet_length(meta::text) > 1048576 THEN
            format('meta of %s: longer than 1048576 bytes', to_json(kind))
        WHEN jsonb_path_exists(meta, 'strict $.**{127} ? (@.type() == "array" || @.type() == "object")') THEN
            format('meta of %s: values nest too deeply: "more than 127 levels"', to_json(kind))
        -- A runner that meets one cannot read the row.
        WHEN jsonb_path_exists(meta, 'strict $.** ? (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308)') THEN
            format('meta of %s: the number is out of range: "beyond 1.8e308"', to_json(kind))
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'invalid ' || problem;
    END IF;
END
$$;
COMMENT ON FUNCTION _check_job IS 'Raises error 22023 for arguments of insert_job, without its policies, that no job can have.';

CREATE FUNCTION _key_args(args jsonb, args_keys jsonb, optional_args_keys jsonb, appends boolean) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    -- Positional args are chosen from in their first item when that is an object.
    source CONSTANT jsonb :=
        CASE WHEN jsonb_typeof(args) = 'array' AND jsonb_typeof(args -> 0) = 'object' THEN args -> 0 ELSE args END;
    changed text;
BEGIN
    IF appends THEN
        SELECT (_part_path(p.part))[1]
        INTO changed
        FROM jsonb_array_elements_text(coalesce(args_keys, '[]') || coalesce(optional_args_keys, '[]'))
            WITH ORDINALITY AS p (part, place)
        WHERE jsonb_typeof(source -> (_part_path(p.part))[1]) = 'array'
        ORDER BY p.place
        LIMIT 1;
        IF changed IS NOT NULL THEN
            PERFORM _refuse_policy(
                'update', format('append would change a member that the key is made from: %s', to_json(changed))
            );
        END IF;
    END IF;
    RETURN coalesce(_chosen_parts(source, optional_args_keys, false, _chosen_parts(source, args_keys, true)), '{}');
END
$$;
COMMENT ON FUNCTION _key_args IS 'The selected parts of a job''s args. appends: duplicates append. Error 22023: a part is missing or would change.';

CREATE FUNCTION _job_claim(
    kind text, args jsonb, queue text, meta jsonb, priority integer, max_attempts integer, INOUT scheduled_at timestamptz,
    unique_policy jsonb,
    OUT canonical text, OUT unique_key text, OUT unique_states smallint, OUT period interval, OUT ttl interval,
    OUT until_start boolean, OUT discard_on_reentry boolean, OUT on_conflict text, OUT changes update_terms
)
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
    policy record;
    source jsonb;
BEGIN
    PERFORM _check_job(kind, args, queue, meta, priority, max_attempts, scheduled_at);
    IF unique_policy IS NULL THEN
        RETURN;
    END IF;
    policy := _read_unique_policy(unique_policy);
    IF NOT policy.is_enforced THEN
        RETURN;
    END IF;
    scheduled_at := coalesce(scheduled_at, clock_timestamp() + policy.debounce);
    unique_states := policy.unique_states;
    period := policy.period_length;
    ttl := policy.ttl_length;
    until_start := policy.until_start;
    discard_on_reentry := policy.discard_on_reentry;
    on_conflict := policy.on_conflict;
    changes := policy.changes;
    IF policy.key IS NOT NULL THEN
        unique_key := policy.key;
        RETURN;
    END IF;

    canonical := '';
    IF policy.has_args THEN
        source := args;
        IF coalesce(policy.args_keys, policy.optional_args_keys) IS NOT NULL THEN
            source := _key_args(
                args, policy.args_keys, policy.optional_args_keys, coalesce((policy.changes).args = 'append', false)
            );
        END IF;
        canonical := ',"args":' || _canonical_value(source, octet_length(source::text) = length(source::text));
    END IF;
    IF policy.has_meta THEN
        source := coalesce(_chosen_parts(meta, policy.meta_keys, false), '{}');
        canonical := canonical || ',"meta":' || _canonical_value(source, octet_length(source::text) = length(source::text));
    END IF;
    IF policy.window_length IS NOT NULL THEN
        canonical := canonical || ',"period":"' || _window_text(coalesce(scheduled_at, clock_timestamp()), policy.window_length) || '"';
    END IF;
    IF policy.has_queue THEN
        canonical := canonical || ',"queue":' || to_json(_nfc(queue));
    END IF;
    IF policy.has_type THEN
        canonical := canonical || ',"type":' || to_json(_nfc(kind));
    END IF;
    canonical := '{' || substr(canonical, 2) || '}';
    unique_key := encode(sha256(convert_to(canonical, 'UTF8')), 'hex');
END
$$;
COMMENT ON FUNCTION _job_claim IS 'Checks the arguments of insert_job and makes the claim: the canonical text (null for a raw key), its SHA-256, and the terms. All are null for a job that is not unique. scheduled_at: as given. If it is null and the policy debounces, the debounce delay from now. Errors as insert_job.';

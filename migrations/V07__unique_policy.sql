-- What a unique policy says, and the key that it makes.
-- Rust reads the same documents and makes the same keys (src/unique).

-- The message names the field and the text, also where a cast would fail for too many digits.
CREATE FUNCTION _period_length(given text, field text) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
-- Not a cast to interval, which takes signs and words, and counts days by the time zone.
DECLARE
    number CONSTANT text := '([0-9]+(?:[.,][0-9]+)?)';
    -- A year and a month on average. Only the limit of 100 years uses them.
    sizes CONSTANT integer[] := ARRAY[31557600, 2629800, 604800, 86400, 3600, 60, 1];
    parts CONSTANT text[] := regexp_match(given COLLATE "C", format(
        '^P(?:%1$sY)?(?:%1$sM)?(?:%1$sW)?(?:%1$sD)?(?:T(?:%1$sH)?(?:%1$sM)?(?:%1$sS)?)?$', number
    ));
    has_fraction boolean := false;
    figure text;
    months numeric := 0;
    seconds numeric := 0;
    problem text;
BEGIN
    IF field IN ('window', 'update.max_delay') AND given COLLATE "C" ~ '^P([0-9.,WD]*[0-9]M|[0-9.,WDTHMS]*[0-9]Y)' THEN
        problem := 'years and months have no fixed length';
    ELSIF parts IS NULL OR right(given, 1) IN ('P', 'T') THEN
        problem := CASE
            WHEN given COLLATE "C" ~ '^-?P' AND strpos(given, '-') > 0 THEN 'must not be negative'
            ELSE 'is not an ISO 8601 duration'
        END;
    ELSE
        FOR unit IN 1..7 LOOP
            CONTINUE WHEN parts[unit] IS NULL;
            IF has_fraction THEN
                problem := coalesce(problem, 'only the last unit may have a fraction');
            END IF;
            has_fraction := parts[unit] COLLATE "C" ~ '[.,]';
            figure := CASE WHEN has_fraction THEN rtrim(replace(parts[unit], ',', '.'), '0') ELSE parts[unit] END;
            -- More digits than numeric can hold could not be cast.
            problem := coalesce(problem, CASE
                WHEN unit <= 2 AND has_fraction THEN 'years and months must be whole numbers'
                WHEN figure COLLATE "C" ~ '^0*[1-9][0-9]{20}' THEN 'must not be longer than 100 years'
                WHEN figure COLLATE "C" ~ '[.][0-9]{20}' THEN 'must be whole microseconds'
            END);
            EXIT WHEN problem IS NOT NULL;
            IF unit <= 2 THEN
                months := months + figure::numeric * CASE unit WHEN 1 THEN 12 ELSE 1 END;
            ELSE
                seconds := seconds + figure::numeric * sizes[unit];
            END IF;
        END LOOP;
        problem := CASE
            WHEN problem IS NOT NULL THEN problem
            WHEN months * sizes[2] + seconds > 3155760000 THEN 'must not be longer than 100 years'
            WHEN seconds * 1000000 <> trunc(seconds * 1000000) THEN 'must be whole microseconds'
            WHEN months + seconds = 0 THEN 'must be longer than nothing'
            WHEN field = 'window' AND seconds <> trunc(seconds) THEN 'must be whole seconds'
        END;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                CASE field WHEN 'period' THEN 'invalid %s: %s: %s' ELSE 'invalid unique policy: %s: %s: %s' END,
                field, problem, to_json(given)
            ),
            HINT = 'An ISO 8601 duration such as PT15M or P7D.';
    END IF;
    RETURN make_interval(months => months::integer) + (seconds * 1000000)::bigint * interval '1 microsecond';
END
$$;
COMMENT ON FUNCTION _period_length(text, text) IS
    'The length of an ISO 8601 duration: calendar months, and an exact time in which a day is 24 hours. field: where it stands, for the error. Error 22023: anything else, nothing, more than 100 years, parts of a microsecond, and for a window years, months and parts of a second.';

CREATE FUNCTION _length_after(instant timestamptz, length interval) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- The planner writes the expression in place of the call. CASE, since the time zone is looked up for each call.
    RETURN CASE WHEN length IS NOT NULL THEN (instant AT TIME ZONE 'UTC' + length) AT TIME ZONE 'UTC' END;
COMMENT ON FUNCTION _length_after(timestamptz, interval) IS
    'The instant that is so much later. Months are added in UTC, whatever the session''s time zone. Null for no length.';

CREATE FUNCTION _window_text(instant timestamptz, seconds numeric) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- -62135596800 is Monday 0001-01-01 00:00 UTC in Unix seconds. div is exact, while / rounds the
    -- last microsecond of a window up into the next.
    RETURN to_char(
        to_timestamp(div(extract(epoch FROM instant) + 62135596800, seconds) * seconds - 62135596800)
            AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS"Z/PT"'
    ) || trunc(seconds) || 'S';
COMMENT ON FUNCTION _window_text(timestamptz, numeric) IS
    'The window that an instant falls into, as it stands in the fingerprint: 2026-02-12T15:15:00Z/PT900S. Windows are multiples of the length from Monday 0001-01-01 00:00 UTC, whatever the session''s time zone.';

CREATE FUNCTION _part_path(part text, field text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    problem text;
    segments text[];
BEGIN
    IF left(part, 1) <> '/' THEN
        RETURN ARRAY[part];
    END IF;
    -- Of "/" the only segment is the empty name.
    segments := CASE part WHEN '/' THEN ARRAY[''] ELSE string_to_array(substr(part, 2), '/') END;
    problem := CASE
        WHEN cardinality(segments) > 127 THEN 'must not be deeper than 127 levels'
        WHEN part COLLATE "C" ~ '~([^01]|$)' THEN 'in a JSON Pointer ~ must be written ~0 and / within a name ~1'
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid unique policy: %s: %s: %s', field, problem, to_json(part));
    END IF;
    FOR place IN 1..cardinality(segments) LOOP
        segments[place] := replace(replace(segments[place], '~1', '/'), '~0', '~');
    END LOOP;
    RETURN segments;
END
$$;
COMMENT ON FUNCTION _part_path(text, text) IS
    'The way to a chosen part: a plain name is a top-level member, literally; what starts with / is a JSON Pointer (RFC 6901). field: for the error. Error 22023: a malformed pointer.';

CREATE FUNCTION _add_part(source jsonb, path text[], chosen jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
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
COMMENT ON FUNCTION _add_part(jsonb, text[], jsonb) IS
    'What was chosen so far and the part of source at path, which keeps its nesting; null where source has no such part.';

CREATE FUNCTION _chosen_parts(source jsonb, parts text[], field text, chosen jsonb DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    part text;
    more jsonb;
BEGIN
    FOREACH part IN ARRAY coalesce(parts, '{}') LOOP
        IF jsonb_typeof(source) = 'object' AND part COLLATE "C" !~ '^/' THEN
            -- The usual case, a member by its name, without the calls.
            more := CASE WHEN source ? part THEN coalesce(chosen, '{}') || jsonb_build_object(part, source -> part) END;
        ELSE
            more := _add_part(source, _part_path(part, field), chosen);
        END IF;
        IF more IS NULL AND field = 'args_keys' THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('invalid unique policy: %s: the job has no member %s', field, to_json(part));
        END IF;
        chosen := coalesce(more, chosen);
    END LOOP;
    RETURN chosen;
END
$$;
COMMENT ON FUNCTION _chosen_parts(jsonb, text[], text, jsonb) IS
    'What was chosen so far and these parts of source. Error 22023: with field args_keys, a part that source does not have; others are left out.';

CREATE FUNCTION _read_update(document jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    args CONSTANT text := coalesce(document ->> 'args', 'latest');
    schedule CONSTANT text := coalesce(document ->> 'schedule', 'keep');
    members CONSTANT text[] := ARRAY['args', 'schedule', 'max_delay', 'max_items'];
    problem text;
BEGIN
    problem := CASE
        WHEN jsonb_typeof(document) <> 'object' THEN format('update: must be an object: %s', left(document::text, 80))
        WHEN document - members <> '{}' THEN
            format('update: unknown member: %s', (SELECT to_json(m.name) FROM jsonb_object_keys(document - members) AS m (name) LIMIT 1))
        WHEN jsonb_typeof(document -> 'args') <> 'string' THEN
            format('update.args: must be a string: %s', document -> 'args')
        WHEN args NOT IN ('latest', 'merge', 'append') THEN
            format('update.args: must be one of latest, merge, append: %s', document -> 'args')
        WHEN jsonb_typeof(document -> 'schedule') <> 'string' THEN
            format('update.schedule: must be a string: %s', document -> 'schedule')
        WHEN schedule NOT IN ('keep', 'push') THEN
            format('update.schedule: must be one of keep, push: %s', document -> 'schedule')
        WHEN jsonb_typeof(document -> 'max_delay') <> 'string' THEN
            format('update.max_delay: must be a string: %s', document -> 'max_delay')
        WHEN _period_length(document ->> 'max_delay', 'update.max_delay') IS NOT NULL AND schedule = 'keep' THEN
            format('update.max_delay: needs schedule push: %s', document -> 'max_delay')
        WHEN document ? 'max_items' AND CASE
            WHEN (document ->> 'max_items') COLLATE "C" ~ '^[0-9]{1,9}$' AND jsonb_typeof(document -> 'max_items') = 'number'
                THEN (document ->> 'max_items')::integer NOT BETWEEN 1 AND 1000000
            ELSE true
        END THEN
            format('update.max_items: must be 1 to 1000000: %s', document -> 'max_items')
        WHEN schedule = 'push' AND NOT document ? 'max_delay' THEN 'update.schedule: push needs max_delay: "push"'
        WHEN document ? 'max_items' AND args <> 'append' THEN
            format('update.max_items: needs args append: %s', document -> 'max_items')
    END;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'invalid unique policy: ' || problem;
    END IF;
    RETURN format(
        'update %s %s %s', args,
        coalesce((extract(epoch FROM _period_length(document ->> 'max_delay', 'update.max_delay')) * 1000000)::bigint, 0),
        coalesce(document ->> 'max_items', '1000')
    );
END
$$;
COMMENT ON FUNCTION _read_update(jsonb) IS
    'Reads the member update of a policy''s document strictly. Answers the on_conflict that _insert_batch reads: update, then args, max_delay in microseconds (0: the schedule is kept) and max_items. Error 22023 naming the member at fault.';

CREATE FUNCTION _read_unique_policy(
    document jsonb,
    OUT key text,
    OUT has_type boolean,
    OUT has_queue boolean,
    OUT has_args boolean,
    OUT has_meta boolean,
    OUT args_keys text[],
    OUT optional_args_keys text[],
    OUT meta_keys text[],
    OUT period_length interval,
    OUT ttl_length interval,
    OUT window_length numeric,
    OUT unique_states smallint,
    OUT until_start boolean,
    OUT discard_on_reentry boolean,
    OUT on_conflict text,
    OUT is_enforced boolean
)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    key_makers CONSTANT text[] :=
        ARRAY['keys', 'args_keys', 'optional_args_keys', 'meta_keys', 'window', 'exclude_type'];
    -- The queue whose defaults stand where the document has no member of its own.
    preset text;
    member text;
    given jsonb;
    words text[];
    word text;
    choices text[];
    keys text[];
    states text[];
    scope text;
    until text;
    exclude_type boolean := false;
    -- The member at fault and what is wrong with it, ending in the value.
    field text;
    problem text;
    update_terms text;
BEGIN
    discard_on_reentry := false;
    IF jsonb_typeof(document) <> 'object' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid unique policy: unique_policy: must be an object: %s', left(document::text, 80));
    END IF;

    -- One by one: the members' types and words.
    FOR member, given IN SELECT e.key, e.value FROM jsonb_each(document) AS e LOOP
        CASE
            WHEN member IN ('args_keys', 'optional_args_keys', 'meta_keys', 'period', 'ttl', 'window')
                AND given = 'null'
            THEN
                CONTINUE;
            WHEN member IN ('keys', 'args_keys', 'optional_args_keys', 'meta_keys', 'states') THEN
                IF jsonb_typeof(given) <> 'array' OR jsonb_path_exists(given, 'strict $[*] ? (@.type() != "string")') THEN
                    field := member;
                    problem := format('must be a list of strings: %s', given);
                    EXIT;
                END IF;
                words := ARRAY(SELECT jsonb_array_elements_text(given));
                CASE member
                    WHEN 'keys' THEN keys := words;
                    WHEN 'args_keys' THEN args_keys := words;
                    WHEN 'optional_args_keys' THEN optional_args_keys := words;
                    WHEN 'meta_keys' THEN meta_keys := words;
                    WHEN 'states' THEN states := words;
                END CASE;
            WHEN member = 'update' THEN
                update_terms := _read_update(given);
            WHEN member = 'exclude_type' THEN
                IF jsonb_typeof(given) <> 'boolean' THEN
                    field := member;
                    problem := format('must be true or false: %s', given);
                    EXIT;
                END IF;
                exclude_type := given::boolean;
            WHEN member IN ('key', 'like', 'period', 'ttl', 'window', 'scope', 'until', 'on_conflict', 'on_reentry') THEN
                word := given #>> '{}';
                choices := CASE member
                    WHEN 'like' THEN ARRAY['faktory', 'ojs', 'river', 'zizq']
                    WHEN 'scope' THEN ARRAY['queued', 'active', 'completed', 'exists']
                    WHEN 'until' THEN ARRAY['success', 'start']
                    WHEN 'on_conflict' THEN ARRAY['ignore', 'reject', 'replace', 'replace_except_schedule', 'preempt', 'update', 'run_again']
                    WHEN 'on_reentry' THEN ARRAY['go_on', 'discard']
                END;
                IF jsonb_typeof(given) <> 'string' THEN
                    field := member;
                    problem := format('must be a string: %s', given);
                    EXIT;
                ELSIF word <> ALL (choices) THEN
                    field := member;
                    problem := format('must be one of %s: %s', array_to_string(choices, ', '), given);
                    EXIT;
                END IF;
                CASE member
                    WHEN 'key' THEN key := word;
                    WHEN 'like' THEN preset := word;
                    WHEN 'period' THEN period_length := _period_length(word, member);
                    WHEN 'ttl' THEN ttl_length := _period_length(word, member);
                    WHEN 'window' THEN window_length := extract(epoch FROM _period_length(word, member));
                    WHEN 'scope' THEN scope := word;
                    WHEN 'until' THEN until := word;
                    WHEN 'on_conflict' THEN on_conflict := word;
                    WHEN 'on_reentry' THEN discard_on_reentry := word = 'discard';
                END CASE;
            ELSE
                field := 'unknown member';
                problem := to_json(member);
                EXIT;
        END CASE;
    END LOOP;

    -- As in River, nothing but its own defaults is no uniqueness at all.
    is_enforced := preset IS DISTINCT FROM 'river' OR exclude_type
        OR coalesce(key, scope, until) IS NOT NULL OR coalesce(keys, states) IS NOT NULL
        OR coalesce(period_length, ttl_length) IS NOT NULL OR window_length IS NOT NULL;
    keys := coalesce(keys, CASE preset
        WHEN 'faktory' THEN ARRAY['type', 'queue', 'args']
        WHEN 'zizq' THEN ARRAY['type', 'args']
    END);
    IF update_terms IS NOT NULL AND on_conflict <> 'update' THEN
        field := 'update';
        problem := coalesce(problem, format('needs on_conflict update: %s', to_json(on_conflict)));
    ELSIF update_terms IS NOT NULL OR on_conflict = 'update' THEN
        on_conflict := coalesce(update_terms, 'update latest 0 1000');
    END IF;
    on_conflict := coalesce(on_conflict, CASE WHEN preset IN ('faktory', 'ojs') THEN 'reject' ELSE 'ignore' END);
    has_type := NOT exclude_type;
    has_queue := coalesce('queue' = ANY (keys), false);
    has_args := coalesce('args' = ANY (keys), false);
    has_meta := coalesce('meta' = ANY (keys), false);
    until_start := coalesce(until = 'start', false);

    -- Then the members that exclude or need each other.
    IF problem IS NOT NULL THEN
        NULL;
    ELSIF document ? 'key' AND document ?| key_makers THEN
        field := 'key';
        problem := format('stands alone, without %s', (SELECT m FROM unnest(key_makers) AS m WHERE document ? m LIMIT 1));
    ELSIF NOT keys <@ ARRAY['type', 'queue', 'args', 'meta'] THEN
        field := 'keys';
        problem := format('must be type, queue, args or meta: %s', (
            SELECT to_json(k) FROM unnest(keys) AS k WHERE k NOT IN ('type', 'queue', 'args', 'meta') LIMIT 1
        ));
    ELSIF NOT has_args AND cardinality(args_keys) > 0 THEN
        field := 'args_keys';
        problem := format('needs "args" in keys: %s', document -> 'args_keys');
    ELSIF NOT has_args AND cardinality(optional_args_keys) > 0 THEN
        field := 'optional_args_keys';
        problem := format('needs "args" in keys: %s', document -> 'optional_args_keys');
    ELSIF NOT has_meta AND cardinality(meta_keys) > 0 THEN
        field := 'meta_keys';
        problem := format('needs "meta" in keys: %s', document -> 'meta_keys');
    ELSIF has_args AND (
        args_keys = '{}' OR (args_keys IS NULL AND optional_args_keys = '{}')
    ) THEN
        field := 'args_keys';
        problem := 'must name at least one member: []';
    ELSIF has_meta AND coalesce(meta_keys, '{}') = '{}' THEN
        field := 'meta_keys';
        problem := 'must name at least one member: []';
    ELSIF exclude_type AND document -> 'keys' ? 'type' THEN
        field := 'exclude_type';
        problem := 'contradicts "type" in keys: true';
    ELSIF exclude_type AND NOT has_queue AND NOT has_args AND NOT has_meta AND window_length IS NULL THEN
        field := 'exclude_type';
        problem := 'leaves nothing to make a key from: true';
    ELSIF preset = 'faktory' AND ttl_length IS NULL THEN
        field := 'like';
        problem := 'faktory needs ttl, which is its unique_for: "faktory"';
    ELSIF states IS NOT NULL AND scope IS NOT NULL THEN
        field := 'scope';
        problem := format('stands beside states, which say the same: %s', scope);
    ELSIF states = '{}' THEN
        field := 'states';
        problem := 'must name at least one state: []';
    ELSIF NOT states <@ (state_names(255::smallint) || 'active'::text) THEN
        field := 'states';
        problem := format('unknown state: %s', (
            SELECT to_json(s) FROM unnest(states) AS s WHERE s <> ALL (state_names(255::smallint) || 'active'::text) LIMIT 1
        ));
    ELSIF period_length IS NOT NULL AND ttl_length IS NOT NULL THEN
        field := 'ttl';
        problem := format(
            'stands beside period, and only one of period, ttl and window may limit a claim: %s and %s',
            document ->> 'period', document ->> 'ttl'
        );
    ELSIF window_length IS NOT NULL AND coalesce(period_length, ttl_length) IS NOT NULL THEN
        field := 'window';
        problem := format(
            'stands beside period or ttl, and only one of them may limit time: %s and %s',
            document ->> 'window', coalesce(document ->> 'period', document ->> 'ttl')
        );
    ELSIF on_conflict COLLATE "C" LIKE 'update append %' AND has_args AND args_keys IS NULL AND optional_args_keys IS NULL THEN
        field := 'update.args';
        problem := 'append would change the args, which are all in the key: "append"';
    -- A month has 28 days at least.
    ELSIF on_conflict COLLATE "C" LIKE 'update %' AND split_part(on_conflict, ' ', 3)::bigint > (
        extract(epoch FROM period_length - date_trunc('month', period_length))
            + (extract(year FROM period_length) * 12 + extract(month FROM period_length)) * 2419200
    ) * 1000000 THEN
        field := 'update.max_delay';
        problem := format(
            'must not be longer than period: %s and %s', document -> 'update' ->> 'max_delay', document ->> 'period'
        );
    ELSE
        unique_states := CASE
            WHEN states IS NOT NULL THEN (
                SELECT bit_or(_state_bit(replace(s, 'active', 'running')::job_state)) FROM unnest(states) AS s
            )
            WHEN scope = 'queued' THEN 177
            WHEN scope = 'completed' THEN 245
            WHEN scope = 'exists' THEN 255
            WHEN scope = 'active' THEN 241
            WHEN until = 'success' OR preset = 'faktory' THEN 251
            WHEN preset = 'river' THEN 245
            WHEN preset = 'zizq' THEN 177
            ELSE 241
        END;
        IF until_start AND unique_states & 177 = 0 THEN
            field := 'until';
            problem := format(
                'start ends the claim at the fetch, and the states hold none before it: %s',
                array_to_string(state_names(unique_states), ', ')
            );
        ELSIF on_conflict = 'run_again' AND NOT until_start AND unique_states & _state_bit('running') <> 0 THEN
            field := 'on_conflict';
            problem := format(
                'run_again needs a scope without running: %s', array_to_string(state_names(unique_states), ', ')
            );
        END IF;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('invalid unique policy: %s: %s', field, problem);
    END IF;
    IF octet_length(key) NOT BETWEEN 1 AND 512 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'invalid unique key: must %s: %s',
            CASE key WHEN '' THEN 'not be empty' ELSE 'not be longer than 512 bytes' END, to_json(left(key, 80))
        );
    END IF;
END
$$;
COMMENT ON FUNCTION _read_unique_policy(jsonb) IS
    'Reads a policy''s document (see unique_key) strictly. The window''s length is in seconds, unique_states is the bitmask of job.unique_states. Error 22023 naming the member at fault.';

CREATE FUNCTION _job_claim(
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
    max_args_bytes CONSTANT bigint := coalesce(nullif(current_setting('uniqueue.max_args_bytes', true), ''), '1048576');
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
        -- Text of more than 1 GB cannot be made. The stored form is at most some four times as long as the text.
        WHEN pg_column_size(args) > 8 * max_args_bytes THEN
            format('args of %s: longer than %s bytes: %s bytes', to_json(kind), max_args_bytes, pg_column_size(args))
        WHEN octet_length(args::text) > max_args_bytes THEN
            format('args of %s: longer than %s bytes: %s bytes', to_json(kind), max_args_bytes, octet_length(args::text))
        WHEN jsonb_path_exists(args, too_deep) THEN
            format('args of %s: values nest too deeply: "more than 127 levels"', to_json(kind))
        WHEN meta IS NULL THEN format('meta of %s: must not be null', to_json(kind))
        WHEN jsonb_typeof(meta) <> 'object' THEN
            format('meta of %s: must be an object: %s', to_json(kind), left(meta::text, 80))
        WHEN pg_column_size(meta) > 8388608 OR octet_length(meta::text) > 1048576 THEN
            format('meta of %s: longer than 1048576 bytes', to_json(kind))
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

    -- No SELECT, which would be planned anew for each document.
    policy := _read_unique_policy(unique_policy);
    IF NOT policy.is_enforced THEN
        RETURN;
    END IF;
    unique_states := policy.unique_states;
    period := policy.period_length;
    ttl := policy.ttl_length;
    until_start := policy.until_start;
    discard_on_reentry := policy.discard_on_reentry;
    on_conflict := policy.on_conflict;
    IF policy.key IS NOT NULL THEN
        unique_key := policy.key;
        RETURN;
    END IF;

    canonical := '';
    IF policy.has_args THEN
        source := args;
        IF coalesce(policy.args_keys, policy.optional_args_keys) IS NOT NULL THEN
            -- Positional args are chosen from in their first item when that is an object.
            source := CASE WHEN jsonb_typeof(args) = 'array' AND jsonb_typeof(args -> 0) = 'object' THEN args -> 0 ELSE args END;
            source := coalesce(
                _chosen_parts(
                    source, policy.optional_args_keys, 'optional_args_keys',
                    _chosen_parts(source, policy.args_keys, 'args_keys')
                ),
                '{}'
            );
            IF policy.on_conflict COLLATE "C" LIKE 'update append %' THEN
                SELECT format('invalid unique policy: update.args: append would change a member that the key is made from: %s', to_json(m.name))
                INTO problem
                FROM unnest(policy.args_keys || policy.optional_args_keys) WITH ORDINALITY AS p (part, place)
                CROSS JOIN LATERAL (SELECT (_part_path(p.part, 'args_keys'))[1]) AS m (name)
                WHERE jsonb_typeof(
                    CASE WHEN jsonb_typeof(args) = 'array' AND jsonb_typeof(args -> 0) = 'object' THEN args -> 0 ELSE args END
                        -> m.name
                ) = 'array'
                ORDER BY p.place
                LIMIT 1;
                IF problem IS NOT NULL THEN
                    RAISE invalid_parameter_value USING MESSAGE = problem;
                END IF;
            END IF;
        END IF;
        canonical := canonical || ',"args":' || _canonical_value(source);
    END IF;
    IF policy.has_meta THEN
        source := coalesce(_chosen_parts(meta, policy.meta_keys, 'meta_keys'), '{}');
        canonical := canonical || ',"meta":' || _canonical_value(source);
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
COMMENT ON FUNCTION _job_claim(text, jsonb, text, jsonb, integer, integer, timestamptz, jsonb) IS
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
    RETURN (SELECT c.unique_key FROM _job_claim(kind, args, queue, meta, 0, NULL, scheduled_at, unique_policy) AS c);
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
  like: faktory (needs ttl), ojs, river or zizq: the defaults of that queue where the document has no member of its own. river alone is not unique.
  states: list of states in which the job claims its key (active is running); or
  scope: queued, active (default), completed, exists.
  period: the claim ends so long after created_at; ttl: after the later of created_at and scheduled_at. ISO 8601 durations; years and months are added in UTC.
  until: start (the fetch ends the claim) or success (all states but completed).
  on_conflict: ignore (default), reject, replace, replace_except_schedule, preempt, update, run_again (needs states without running).
  update: with on_conflict update, what changes of a holder that waits: {"args": latest (default), merge or append, "schedule": keep (default) or push, "max_delay": an ISO 8601 duration, with push, "max_items": 1 to 1000000, default 1000, with append}.
  on_reentry: go_on (default) or discard.
Errors 22023, naming the argument or the member: anything else.';

-- From a policy and a job to the unique key: what src/unique/{document,resolve,select}.rs and
-- src/period.rs do, with the same errors. Runs with search_path set to the schema.

CREATE FUNCTION period_seconds(given text, field text) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
-- Not a cast to interval, which takes months, signs and words, and counts days by the time zone.
DECLARE
    number CONSTANT text := '([0-9]+(?:[.,][0-9]+)?)';
    sizes CONSTANT integer[] := ARRAY[604800, 86400, 3600, 60, 1];
    parts CONSTANT text[] := regexp_match(given, format(
        '^P(?:%1$sW)?(?:%1$sD)?(?:T(?:%1$sH)?(?:%1$sM)?(?:%1$sS)?)?$', number
    ));
    has_fraction boolean := false;
    seconds numeric := 0;
    problem text;
BEGIN
    IF parts IS NULL OR right(given, 1) IN ('P', 'T') THEN
        problem := CASE
            WHEN given ~ '^-?P' AND strpos(given, '-') > 0 THEN 'must not be negative'
            WHEN given ~ '^P([0-9.,WD]*[0-9]M|[0-9.,WDTHMS]*[0-9]Y)' THEN 'years and months have no fixed length'
            ELSE 'is not an ISO 8601 duration'
        END;
    ELSE
        FOR unit IN 1..5 LOOP
            CONTINUE WHEN parts[unit] IS NULL;
            IF has_fraction THEN
                problem := 'only the last unit may have a fraction';
            END IF;
            has_fraction := parts[unit] ~ '[.,]';
            seconds := seconds + replace(parts[unit], ',', '.')::numeric * sizes[unit];
        END LOOP;
        problem := CASE
            WHEN problem IS NOT NULL THEN problem
            WHEN seconds > 3155760000 THEN 'must not be longer than 100 years'
            WHEN seconds * 1000000 <> trunc(seconds * 1000000) THEN 'must be whole microseconds'
            WHEN seconds = 0 THEN 'must be longer than nothing'
            WHEN field = 'window' AND seconds <> trunc(seconds) THEN 'must be whole seconds'
        END;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format(
                CASE field WHEN 'period' THEN 'invalid %s: %s: %s' ELSE 'invalid unique policy: %s: %s: %s' END,
                field, problem, to_json(given)
            ),
            HINT = 'An ISO 8601 duration of weeks, days, hours, minutes or seconds, such as PT15M or P7D.';
    END IF;
    RETURN seconds;
END
$$;
COMMENT ON FUNCTION period_seconds(text, text) IS
    'The length of an ISO 8601 duration of weeks, days, hours, minutes and seconds; a day is 24 hours. field: where it stands, for the error. Error 22023: anything else, nothing, more than 100 years, parts of a microsecond, for a window parts of a second.';

CREATE FUNCTION window_text(instant timestamptz, seconds numeric) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- -62135596800 is Monday 0001-01-01 00:00 UTC in Unix seconds. div is exact, while / rounds the
    -- last microsecond of a window up into the next.
    RETURN to_char(
        to_timestamp(div(extract(epoch FROM instant) + 62135596800, seconds) * seconds - 62135596800)
            AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS"Z/PT"'
    ) || trunc(seconds) || 'S';
COMMENT ON FUNCTION window_text(timestamptz, numeric) IS
    'The window that an instant falls into, as it stands in the fingerprint: 2026-02-12T15:15:00Z/PT900S. Windows are multiples of the length from Monday 0001-01-01 00:00 UTC, whatever the session''s time zone.';

CREATE FUNCTION part_path(part text, field text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    problem text;
    segments text[];
BEGIN
    IF part <> '' AND left(part, 1) <> '/' THEN
        RETURN ARRAY[part];
    END IF;
    -- Of "/" the only segment is the empty name.
    segments := CASE part WHEN '/' THEN ARRAY[''] ELSE string_to_array(substr(part, 2), '/') END;
    problem := CASE
        WHEN part = '' THEN 'must not be empty: it would select everything'
        WHEN cardinality(segments) > 127 THEN 'must not be deeper than 127 levels'
        WHEN part ~ '~([^01]|$)' THEN 'in a JSON Pointer ~ must be written ~0 and / within a name ~1'
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
COMMENT ON FUNCTION part_path(text, text) IS
    'The way to a chosen part: a plain name is a top-level member, literally; what starts with / is a JSON Pointer (RFC 6901). field: for the error. Error 22023: a malformed pointer.';

CREATE FUNCTION add_part(source jsonb, path text[], chosen jsonb) RETURNS jsonb
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
        part := add_part(source -> name, path[2:], chosen -> name);
        RETURN CASE
            WHEN part IS NULL THEN NULL
            WHEN jsonb_typeof(chosen) = 'object' THEN chosen || jsonb_build_object(name, part)
            ELSE jsonb_build_object(name, part)
        END;
    ELSIF jsonb_typeof(source) = 'array' AND name ~ '^(0|[1-9][0-9]{0,8})$' THEN
        place := name;
        part := add_part(source -> place, path[2:], chosen -> place);
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
COMMENT ON FUNCTION add_part(jsonb, text[], jsonb) IS
    'What was chosen so far and the part of source at path, which keeps its nesting; null where source has no such part.';

CREATE FUNCTION chosen_parts(source jsonb, parts text[], field text, chosen jsonb DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    part text;
    more jsonb;
BEGIN
    FOREACH part IN ARRAY coalesce(parts, '{}') LOOP
        IF jsonb_typeof(source) = 'object' AND part !~ '^(/|$)' THEN
            -- The usual case, a member by its name, without the calls.
            more := CASE WHEN source ? part THEN coalesce(chosen, '{}') || jsonb_build_object(part, source -> part) END;
        ELSE
            more := add_part(source, part_path(part, field), chosen);
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
COMMENT ON FUNCTION chosen_parts(jsonb, text[], text, jsonb) IS
    'What was chosen so far and these parts of source. Error 22023: with field args_keys, a part that source does not have; others are left out.';

CREATE FUNCTION read_unique_policy(
    document jsonb,
    OUT key text,
    OUT has_type boolean,
    OUT has_queue boolean,
    OUT has_args boolean,
    OUT has_meta boolean,
    OUT args_keys text[],
    OUT optional_args_keys text[],
    OUT meta_keys text[],
    OUT period_length numeric,
    OUT ttl_length numeric,
    OUT window_length numeric,
    OUT unique_states smallint,
    OUT until_start boolean,
    OUT discard_on_reentry boolean,
    OUT on_conflict text
)
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
#variable_conflict use_variable
DECLARE
    key_makers CONSTANT text[] :=
        ARRAY['keys', 'args_keys', 'optional_args_keys', 'meta_keys', 'window', 'exclude_type'];
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
BEGIN
    on_conflict := 'ignore';
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
            WHEN member = 'exclude_type' THEN
                IF jsonb_typeof(given) <> 'boolean' THEN
                    field := member;
                    problem := format('must be true or false: %s', given);
                    EXIT;
                END IF;
                exclude_type := given::boolean;
            WHEN member IN ('key', 'period', 'ttl', 'window', 'scope', 'until', 'on_conflict', 'on_reentry') THEN
                word := given #>> '{}';
                choices := CASE member
                    WHEN 'scope' THEN ARRAY['queued', 'active', 'completed', 'exists']
                    WHEN 'until' THEN ARRAY['success', 'start']
                    WHEN 'on_conflict' THEN ARRAY['ignore', 'reject', 'replace', 'replace_except_schedule']
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
                    WHEN 'period' THEN period_length := period_seconds(word, member);
                    WHEN 'ttl' THEN ttl_length := period_seconds(word, member);
                    WHEN 'window' THEN window_length := period_seconds(word, member);
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

    has_type := NOT exclude_type;
    has_queue := coalesce('queue' = ANY (keys), false);
    has_args := coalesce('args' = ANY (keys), false);
    has_meta := coalesce('meta' = ANY (keys), false);
    until_start := coalesce(until = 'start', false);

    -- Then what they say together.
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
    ELSIF exclude_type AND 'type' = ANY (keys) THEN
        field := 'exclude_type';
        problem := 'contradicts "type" in keys: true';
    ELSIF exclude_type AND NOT has_queue AND NOT has_args AND NOT has_meta AND window_length IS NULL THEN
        field := 'exclude_type';
        problem := 'leaves nothing to make a key from: true';
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
    ELSE
        unique_states := CASE
            WHEN states IS NOT NULL THEN (
                SELECT bit_or(state_bit(replace(s, 'active', 'running')::job_state)) FROM unnest(states) AS s
            )
            WHEN scope = 'queued' THEN 177
            WHEN scope = 'completed' THEN 245
            WHEN scope = 'exists' THEN 255
            WHEN scope IS NULL AND until = 'success' THEN 251
            ELSE 241
        END;
        IF until_start AND unique_states & 177 = 0 THEN
            field := 'until';
            problem := format(
                'start ends the claim at the fetch, and the states hold none before it: %s',
                array_to_string(state_names(unique_states), ', ')
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
COMMENT ON FUNCTION read_unique_policy(jsonb) IS
    'Reads a policy''s document (see unique_key) strictly. Lengths are in seconds, unique_states is the bitmask of job.unique_states. Error 22023 naming the member at fault.';

-- The canonical text of JSON, from which unique keys are made: byte for byte what
-- src/unique/canonical.rs writes. Runs with search_path set to the schema.
--
-- Nothing here depends on a setting of the session: what would (search_path, extra_float_digits)
-- is set on the function, and strings with a backslash are E'…', which
-- standard_conforming_strings leaves alone. The functions in SQL are not STRICT, because only
-- then does the planner write them out where they are called, which is four times as fast.

CREATE FUNCTION nfc_around_u11a7(given text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        SELECT string_agg(normalize(p.part, NFC), chr(4519) ORDER BY p.place)
        FROM unnest(string_to_array(given, chr(4519))) WITH ORDINALITY AS p (part, place)
    );
COMMENT ON FUNCTION nfc_around_u11a7(text) IS
    'As nfc, for texts with U+11A7: PostgreSQL takes that for a final consonant and drops it after a Hangul syllable. It composes with nothing, so the parts on its sides can be normalized each on its own.';

CREATE FUNCTION nfc(given text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        -- ASCII, which NFC leaves as it is, has as many bytes as characters.
        WHEN octet_length(given) = length(given) THEN given
        WHEN strpos(given, chr(4519)) = 0 THEN normalize(given, NFC)
        ELSE nfc_around_u11a7(given)
    END;
COMMENT ON FUNCTION nfc(text) IS
    'The text in Unicode Normalization Form C, by the Unicode version of this server: characters younger than that stay as they are. Needs a database with encoding UTF8.';

CREATE FUNCTION utf16_order(name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- In UTF-16 the characters above U+FFFF are surrogate pairs, which come before U+E000 to
    -- U+FFFF. Marked with U+10FFFF, the last character of all, those come last in bytes too;
    -- U+10FFFF itself gets the lowest character behind it, so that it stays before them.
    RETURN CASE
        WHEN octet_length(name) = length(name) THEN name
        ELSE regexp_replace(
            replace(name, chr(1114111), chr(1114111) || chr(1)),
            E'([\\uE000-\\uFFFF])',
            chr(1114111) || E'\\1',
            'g'
        )
    END COLLATE "C";
COMMENT ON FUNCTION utf16_order(text) IS
    'A text to sort by: its order in bytes is the order of the names in UTF-16 code units, which RFC 8785 asks for.';

CREATE FUNCTION double_text(given numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
    SET extra_float_digits = 1
AS $$
DECLARE
    nearest double precision;
    shortest text;
    decimal numeric;
    place integer;
    candidate numeric;
    plain text;
    digits text;
    exponent integer;
BEGIN
    -- The casts below would fail where a reader of JSON takes 0, or would call it by another name.
    IF abs(given) < 1e-323 AND abs(given) * power(2::numeric, 1075) <= 1 THEN
        RETURN '0';
    ELSIF abs(given) >= power(2::numeric, 1024) - power(2::numeric, 970) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('invalid unique key: the number is out of range: "%s"', left(given::text, 80));
    END IF;
    nearest := given::double precision;
    shortest := nearest::text;
    decimal := shortest::numeric;

    -- PostgreSQL writes the shortest digits that lie strictly between the neighbours' borders;
    -- ECMAScript also takes a border, where reading rounds it to this double. Then one digit
    -- fewer is enough. With 15 digits or fewer that cannot be: each of those is a double's own.
    IF length(shortest) > 15 THEN
        -- Of the last digit, counted from the point to the right.
        place := length(split_part(split_part(shortest, 'e', 1), '.', 2))
            - coalesce(nullif(split_part(shortest, 'e', 2), ''), '0')::integer;
        candidate := trunc(decimal, place - 1);
        IF candidate::double precision <> nearest THEN
            candidate := candidate + sign(decimal) * ('1e' || 1 - place)::numeric;
        END IF;
        IF abs(candidate) <= 1.7976931348623157e308 AND candidate::double precision = nearest THEN
            decimal := candidate;
        END IF;
    END IF;

    -- From here as ECMAScript's Number::toString: plain from 1e-6 to below 1e21, otherwise with
    -- an exponent.
    plain := trim_scale(abs(decimal))::text;
    IF decimal = 0 OR (abs(decimal) >= 1e-6 AND abs(decimal) < 1e21) THEN
        RETURN CASE WHEN decimal < 0 THEN '-' ELSE '' END || plain;
    END IF;
    digits := trim('0' FROM replace(plain, '.', ''));
    exponent := CASE
        WHEN abs(decimal) >= 1 THEN length(plain) - 1
        ELSE length(ltrim(substr(plain, 3), '0')) - length(substr(plain, 3)) - 1
    END;
    RETURN CASE WHEN decimal < 0 THEN '-' ELSE '' END
        || left(digits, 1)
        || CASE WHEN length(digits) > 1 THEN '.' ELSE '' END
        || substr(digits, 2)
        || CASE WHEN exponent > 0 THEN 'e+' ELSE 'e' END
        || exponent;
END
$$;
COMMENT ON FUNCTION double_text(numeric) IS
    'The double nearest to a number, as ECMAScript writes it: 1e21 is 1e+21, 0.1 is 0.1. Error 22023: a number beyond the doubles (1.8e308).';

CREATE FUNCTION canonical_number(given numeric) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN scale(given) = 0 AND given BETWEEN -9223372036854775808 AND 18446744073709551615 THEN given::text
        ELSE double_text(given)
    END;
COMMENT ON FUNCTION canonical_number(numeric) IS
    'A number of canonical JSON: an integer from -2^63 to 2^64-1 with all its digits, anything else as a double. 1.0 is the double 1, since jsonb keeps its zero.';

CREATE FUNCTION canonical_value(given jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
DECLARE
    inner_text text;
    names text[];
BEGIN
    IF jsonb_typeof(given) NOT IN ('object', 'array') THEN
        RETURN CASE jsonb_typeof(given)
            WHEN 'string' THEN to_json(nfc(given #>> '{}'))::text
            WHEN 'number' THEN canonical_number(given::numeric)
            ELSE given::text
        END;
    END IF;

    IF jsonb_typeof(given) = 'array' THEN
        SELECT string_agg(
            CASE jsonb_typeof(i.item)
                WHEN 'string' THEN to_json(nfc(i.item #>> '{}'))::text
                WHEN 'number' THEN canonical_number(i.item::numeric)
                ELSE canonical_value(i.item)
            END,
            ',' ORDER BY i.place
        )
        INTO inner_text
        FROM jsonb_array_elements(given) WITH ORDINALITY AS i (item, place);
        RETURN '[' || coalesce(inner_text, '') || ']';
    END IF;

    SELECT
        string_agg(
            to_json(m.name)::text || ':' || CASE jsonb_typeof(m.member)
                WHEN 'string' THEN to_json(nfc(m.member #>> '{}'))::text
                WHEN 'number' THEN canonical_number(m.member::numeric)
                ELSE canonical_value(m.member)
            END,
            ',' ORDER BY utf16_order(m.name)
        ),
        array_agg(m.name) FILTER (WHERE octet_length(m.name) <> length(m.name))
    INTO inner_text, names
    FROM (SELECT nfc(e.key) AS name, e.value AS member FROM jsonb_each(given) AS e) AS m;
    -- jsonb keeps names apart that only NFC makes one.
    IF cardinality(names) > 1 AND EXISTS (SELECT FROM unnest(names) AS n (name) GROUP BY n.name HAVING count(*) > 1) THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'invalid unique key: two members have one name after Unicode NFC: %s',
            (SELECT to_json(min(n.name)) FROM unnest(names) AS n (name) GROUP BY n.name HAVING count(*) > 1 LIMIT 1)
        );
    END IF;
    RETURN '{' || coalesce(inner_text, '') || '}';
END
$$;
COMMENT ON FUNCTION canonical_value(jsonb) IS
    'The recursion of canonical_json, which checks the depth first.';

CREATE FUNCTION canonical_json(given jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path FROM CURRENT
AS $$
BEGIN
    IF getdatabaseencoding() <> 'UTF8' THEN
        RAISE feature_not_supported USING
            MESSAGE = format('canonical JSON needs a database with encoding UTF8: this one has %s', getdatabaseencoding()),
            HINT = 'Make the keys in the client, and pass them as {"key": "…"}.';
    -- As deep as the Rust library reads.
    ELSIF jsonb_path_exists(given, 'strict $.**{127} ? (@.type() == "array" || @.type() == "object")') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'invalid unique key: values nest too deeply: "more than 127 levels"';
    END IF;
    RETURN canonical_value(given);
END
$$;
COMMENT ON FUNCTION canonical_json(jsonb) IS
    'The canonical text of JSON: RFC 8785 (members sorted by UTF-16 code units, no white space, ECMAScript numbers) after Unicode NFC, with integers from -2^63 to 2^64-1 exact. Two values are the same exactly when their canonical texts are. Errors 22023: names that collide after NFC, more than 127 levels, a number beyond the doubles.';

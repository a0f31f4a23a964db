-- The canonical form of JSON: RFC 8785 with all digits of integers, after Unicode NFC.
-- Rust makes the same text (src/unique); tests hold both to the same vectors.

CREATE FUNCTION _nfc_around_u11a7(given text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        SELECT string_agg(normalize(p.part, NFC), chr(4519) ORDER BY p.place)
        FROM unnest(string_to_array(given, chr(4519))) WITH ORDINALITY AS p (part, place)
    );
COMMENT ON FUNCTION _nfc_around_u11a7 IS 'As _nfc, for a text that contains U+11A7. PostgreSQL takes this character for a final consonant and drops it after a Hangul syllable. The character composes with nothing, so the parts before and after it are normalized separately.';

CREATE FUNCTION _nfc(given text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        -- ASCII, which NFC leaves as it is, has as many bytes as characters.
        WHEN octet_length(given) = length(given) THEN given
        WHEN strpos(given, chr(4519)) = 0 THEN normalize(given, NFC)
        ELSE _nfc_around_u11a7(given)
    END;
COMMENT ON FUNCTION _nfc IS 'The text in Unicode Normalization Form C, by the Unicode version of this server.';

CREATE FUNCTION _utf16_order(name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- In UTF-16 the characters above U+FFFF are surrogate pairs, which come before U+E000 to
    -- U+FFFF. Marked with U+10FFFF, the last character of all, those come last in bytes too;
    -- U+10FFFF itself gets the lowest character behind it, so that it stays before them.
    RETURN regexp_replace(
        replace(name, chr(1114111), chr(1114111) || chr(1)) COLLATE "C",
        E'([\\uE000-\\uFFFF])',
        chr(1114111) || E'\\1',
        'g'
    ) COLLATE "C";
COMMENT ON FUNCTION _utf16_order IS 'A sort key for member names: their order in UTF-16 code units, as RFC 8785 requires.';

CREATE FUNCTION _number_text(given numeric, plain_from numeric, plain_below numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    plain CONSTANT text := trim_scale(abs(given))::text;
    digits text;
    exponent integer;
BEGIN
    IF given = 0 OR (abs(given) >= plain_from AND abs(given) < plain_below) THEN
        RETURN CASE WHEN given < 0 THEN '-' ELSE '' END || plain;
    END IF;
    digits := trim('0' FROM replace(plain, '.', ''));
    exponent := CASE
        WHEN abs(given) >= 1 THEN length(split_part(plain, '.', 1)) - 1
        ELSE length(ltrim(substr(plain, 3), '0')) - length(substr(plain, 3)) - 1
    END;
    RETURN CASE WHEN given < 0 THEN '-' ELSE '' END
        || left(digits, 1)
        || CASE WHEN length(digits) > 1 THEN '.' ELSE '' END
        || substr(digits, 2)
        || CASE WHEN exponent > 0 THEN 'e+' ELSE 'e' END
        || exponent;
END
$$;
COMMENT ON FUNCTION _number_text IS 'A number as ECMAScript writes it, with an exponent outside of plain_from to below plain_below.';

CREATE FUNCTION _double_text(given numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET extra_float_digits = 1
AS $$
DECLARE
    nearest double precision;
    shortest text;
    decimal numeric;
    place integer;
    candidate numeric;
BEGIN
    -- Beside such a number others would have the same text.
    IF given <> 0 AND (
        length(trim('0' FROM replace(trim_scale(abs(given))::text, '.', ''))) > 17
        OR (abs(given) < 1e-323 AND abs(given) * power(2::numeric, 1075) <= 1)
        OR abs(given) >= power(2::numeric, 1024) - power(2::numeric, 970)
    ) THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'invalid unique key: a double cannot hold the number, make it a string: "%s"',
            left(_number_text(given, 1e-7, 1e40), 80)
        );
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

    RETURN _number_text(decimal, 1e-6, 1e21);
END
$$;
COMMENT ON FUNCTION _double_text IS 'The nearest double, as ECMAScript writes it. Error 22023: more than 17 digits, or it rounds to 0 or infinity.';

CREATE FUNCTION _canonical_number(given numeric) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN scale(given) = 0 AND given BETWEEN -9223372036854775808 AND 18446744073709551615 THEN given::text
        ELSE _double_text(given)
    END;
COMMENT ON FUNCTION _canonical_number IS 'A number of canonical JSON: an integer from -2^63 to 2^64-1 with all its digits, else as _double_text.';

CREATE FUNCTION _canonical_value(given jsonb, is_ascii boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    inner_text text;
    names text[];
BEGIN
    IF jsonb_typeof(given) = 'array' THEN
        SELECT string_agg(_canonical_part(i.item, is_ascii), ',' ORDER BY i.place)
        INTO inner_text
        FROM jsonb_array_elements(given) WITH ORDINALITY AS i (item, place);
        RETURN '[' || coalesce(inner_text, '') || ']';
    ELSIF jsonb_typeof(given) <> 'object' THEN
        RETURN _canonical_part(given, is_ascii);
    ELSIF is_ascii THEN
        -- The usual case costs a third: NFC leaves ASCII as it is, and it has one order in UTF-16 and in bytes.
        SELECT string_agg(to_json(e.key)::text || ':' || _canonical_part(e.value, true), ',' ORDER BY e.key COLLATE "C")
        INTO inner_text
        FROM jsonb_each(given) AS e;
        RETURN '{' || coalesce(inner_text, '') || '}';
    END IF;

    SELECT
        string_agg(
            to_json(m.name)::text || ':' || _canonical_part(m.member, false), ',' ORDER BY _utf16_order(m.name) COLLATE "C"
        ),
        array_agg(m.name) FILTER (WHERE octet_length(m.name) <> length(m.name))
    INTO inner_text, names
    FROM (SELECT _nfc(e.key) AS name, e.value AS member FROM jsonb_each(given) AS e) AS m;
    -- jsonb keeps names apart that only NFC makes one.
    IF cardinality(names) > 1 THEN
        PERFORM _refuse('invalid unique key: two members have one name after Unicode NFC: ' || to_json(min(r.name)))
        FROM (
            SELECT n.name COLLATE "C" AS name
            FROM unnest(names) AS n (name)
            GROUP BY n.name COLLATE "C"
            HAVING count(*) > 1
        ) AS r;
    END IF;
    RETURN '{' || coalesce(inner_text, '') || '}';
END
$$;
COMMENT ON FUNCTION _canonical_value IS 'The recursive part of canonical_json. is_ascii: whether all names and strings are ASCII.';

CREATE FUNCTION _canonical_part(given jsonb, is_ascii boolean) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    -- to_json is STABLE. An IMMUTABLE function that calls a STABLE one is not inlined.
    RETURN CASE jsonb_typeof(given)
        WHEN 'number' THEN _canonical_number(given::numeric)
        WHEN 'string' THEN CASE WHEN is_ascii THEN given::text ELSE to_json(_nfc(given #>> '{}'))::text END
        WHEN 'object' THEN _canonical_value(given, is_ascii)
        WHEN 'array' THEN _canonical_value(given, is_ascii)
        ELSE given::text
    END;
COMMENT ON FUNCTION _canonical_part IS 'A member or an item of canonical JSON.';

CREATE FUNCTION canonical_json(given jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    -- As deep as the Rust library reads.
    IF jsonb_path_exists(given, 'strict $.**{127} ? (@.type() == "array" || @.type() == "object")') THEN
        PERFORM _refuse('invalid unique key: values nest too deeply: "more than 127 levels"');
    END IF;
    RETURN _canonical_value(given, octet_length(given::text) = length(given::text));
END
$$;
COMMENT ON FUNCTION canonical_json IS 'The canonical text of a JSON value, by RFC 8785: members sorted by UTF-16 code units, no white space, numbers as in ECMAScript. Strings are converted to Unicode NFC first. Integers from -2^63 to 2^64-1 stay exact. Two values are equal exactly if their canonical texts are. Error 22023 for member names that are equal after NFC, for more than 127 levels, and for a number that _double_text refuses.';

-- The statement that makes the function window_text answer for a time that is $1 further ahead, as if that long had
-- passed. Made from the function's own definition, so that the rule of windows is written once.
SELECT
    f.parts[1] || E'\nRETURN '
    || regexp_replace(f.parts[2] COLLATE "C", '\minstant\M', format('(instant + %L::interval)', $1::interval), 'g') AS statement
FROM (
    SELECT regexp_split_to_array(pg_get_functiondef(p.oid) COLLATE "C", '\n\s*RETURN\s') AS parts
    FROM pg_proc AS p
    WHERE p.oid = '/* schema */_window_text(timestamptz, numeric)'::regprocedure
) AS f

-- How many bytes the largest of these jobs has as text. Reads every value that can be stored out of line, so it fails where
-- one is damaged, or is too large to be returned. $2: a value of more than 160 MB is not made into text, which takes the
-- server many seconds. The most that its text can have counts instead: six bytes for each that is stored.
SELECT max(s.bytes)::bigint AS bytes
FROM /* schema */job AS j
CROSS JOIN LATERAL (
    SELECT
        sum(
            CASE
                -- A value that is stored in fewer bytes, compressed or not, is not that large.
                WHEN NOT $2::boolean OR pg_column_size(v.value) < 600000 THEN octet_length(v.value::text)::bigint
                WHEN pg_column_size(jsonb_build_array(v.value)) > 160000000
                    THEN 6 * pg_column_size(jsonb_build_array(v.value))::bigint
                ELSE octet_length(v.value::text)
            END
        ) AS bytes
    FROM (VALUES (j.args), (j.meta::jsonb), (j.errors), (j.output), (j.progress)) AS v (value)
) AS s
WHERE j.id = ANY ($1::uuid[])

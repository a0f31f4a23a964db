-- How many bytes the largest of these jobs has as text. Reads every value that can be stored out of line, so it fails where
-- one is damaged, or is too large to be returned.
SELECT
    max(
        octet_length(j.args::text)::bigint + octet_length(j.meta::text) + octet_length(j.errors::text)
        + coalesce(octet_length(j.output::text), 0) + coalesce(octet_length(j.progress::text), 0)
    ) AS bytes
FROM /* schema */job AS j
WHERE j.id = ANY ($1::uuid[])

-- The document of a registered kind, whose options an insert takes.
SELECT
    to_jsonb(k) || jsonb_build_object(
        'delay', extract(epoch FROM k.delay), 'expires_in', extract(epoch FROM k.expires_in), 'in_order', coalesce(k.in_order, false)
    ) AS document
FROM /* schema */kind AS k
WHERE k.name = $1

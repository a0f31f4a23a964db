-- The kinds whose suppressed duplicates are or were counted, by name.
SELECT
    a.kind, a.is_audited, a.since, a.stopped_at, a.suppressed, a.last_at,
    -- At most a thousand years: 'infinity' has no number.
    extract(epoch FROM least(a.keep, interval '1000 years')) AS keep, a.tally_is_full
FROM /* schema */suppressed_by_kind AS a
ORDER BY a.kind

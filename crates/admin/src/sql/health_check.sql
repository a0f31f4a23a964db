-- What a check finds with these thresholds.
SELECT
    f.code, f.severity, f.subject, f.seen, f.facts,
    jsonb_build_object('advice', f.advice, 'sql', f.sql, 'command', f.command) AS remedy
FROM /* schema */_find($1::jsonb ->> 'name', $1::jsonb -> 'thresholds') AS f

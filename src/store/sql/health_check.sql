-- What check $1 finds with thresholds $2.
SELECT jsonb_build_object(
    'code', f.code, 'severity', f.severity, 'subject', f.subject, 'seen', f.seen, 'facts', f.facts,
    'remedy', jsonb_build_object('advice', f.advice, 'sql', f.sql, 'command', f.command)
)
FROM /* schema */_find($1, $2) AS f

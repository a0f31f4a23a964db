-- Changes what is given of a periodic job. Args that are the value null are given, and a record has no difference.
SELECT /* schema */set_periodic(
    c.name, kind => c.kind, schedule => c.schedule, time_zone => c.time_zone, args => $1::jsonb -> 'args',
    queue => c.queue, priority => c.priority, max_attempts => c.max_attempts, catch_up => c.catch_up,
    expires_in => make_interval(secs => c.expires_in)
)
FROM jsonb_to_record($1::jsonb) AS c (
    name text, kind text, schedule text, time_zone text, queue text, priority integer, max_attempts integer, catch_up text,
    expires_in double precision
)

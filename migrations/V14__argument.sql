-- Checks of arguments: each raises error 22023, which names the argument and its value.

CREATE FUNCTION _queue_may_be(queue_name text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse('invalid ' || _name_problem('queue', queue_name));
COMMENT ON FUNCTION _queue_may_be IS 'Returns true if the text can be the name of a queue. Otherwise raises error 22023.';

CREATE FUNCTION _hold_may_be(hold_for interval) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN (hold_for BETWEEN interval '0' AND interval '365250 days') IS NOT TRUE THEN
            format('invalid hold: must be 0 to 1000 years: %s', coalesce(hold_for::text, 'null'))
    END);
COMMENT ON FUNCTION _hold_may_be IS 'Returns true if a queue or a group can be held for this time. Otherwise raises error 22023.';

CREATE FUNCTION _time_may_be(scheduled_at timestamptz) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN _refuse(CASE
        WHEN scheduled_at IS NULL THEN 'invalid scheduled_at: must not be null'
        WHEN scheduled_at < '0001-01-01 00:00:00+00' OR scheduled_at >= '9001-01-01 00:00:00+00' THEN
            format('invalid scheduled_at: must be in the years 1 to 9000: %s', scheduled_at)
    END);
COMMENT ON FUNCTION _time_may_be IS 'Returns true if a job can be due at this time. Otherwise raises error 22023.';

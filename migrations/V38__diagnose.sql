-- The diagnosis of a queue: the form of a finding, the thresholds, the words that findings share, and the call of each check.
-- A check is a function _find_… that takes the thresholds and returns findings with their sentences. One without a severity is
-- below its threshold. A check reads a bounded number of rows by index, changes nothing, and fails alone.

CREATE TYPE finding AS (
    code text COLLATE "C",
    severity text COLLATE "C",
    subject text COLLATE "C",
    seen text COLLATE "C",
    advice text COLLATE "C",
    sql text COLLATE "C",
    command text COLLATE "C",
    facts jsonb
);
COMMENT ON TYPE finding IS 'A problem and its remedy. severity: critical, warning or notice. seen: the observation with its numbers. advice: the remedy as a sentence. sql, command: what does it, to be pasted into psql or a shell. Null: nothing can be pasted. facts: the values of the sentence, whose members may change from version to version.';

CREATE FUNCTION _in_seconds(given jsonb) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(given)
        WHEN 'string' THEN to_jsonb(extract(epoch FROM (given #>> '{}')::interval))
        ELSE given
    END;
COMMENT ON FUNCTION _in_seconds IS 'A length of time in seconds. A number stays as it is.';

CREATE FUNCTION _thresholds(given jsonb DEFAULT '{}') RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    defaults CONSTANT jsonb := '{
        "transaction": ["1 min", "10 min"],
        "transactions_behind": [1000000, 10000000],
        "waiting": ["5 min", "1 hour"],
        "overdue": ["1 min", "10 min"],
        "retention": ["1 hour", "1 day"],
        "dead_part": [0.2, 0.5],
        "dead_rows": 50000,
        "notify_usage": [0.1, 0.5],
        "running": "1 hour",
        "slow": "1 min",
        "slow_factor": 10,
        "claim": "1 hour",
        "bloat_factor": 3,
        "bloat_bytes": 8388608
    }';
BEGIN
    PERFORM _refuse(CASE
        WHEN NOT defaults ? g.key THEN format('unknown threshold: %s', g.key)
        ELSE format('invalid threshold: %s: must be as %s: %s', g.key, defaults -> g.key, left(g.value::text, 80))
    END)
    FROM jsonb_each(given) AS g
    WHERE (jsonb_typeof(g.value) = 'array') IS DISTINCT FROM (jsonb_typeof(defaults -> g.key) = 'array')
        OR jsonb_typeof(g.value) = 'object';
    RETURN (
        SELECT jsonb_object_agg(t.key, CASE jsonb_typeof(t.value)
            WHEN 'array' THEN jsonb_build_array(_in_seconds(t.value -> 0), _in_seconds(t.value -> 1))
            ELSE _in_seconds(t.value)
        END)
        FROM jsonb_each(defaults || coalesce(given, '{}')) AS t
    );
END
$$;
COMMENT ON FUNCTION _thresholds IS 'The thresholds of diagnose, lengths of time in seconds. given: those that differ from the defaults. Two values are the thresholds of a warning and of a critical finding. A second value of null: no finding is critical. Error 22023 names an unknown one.';

CREATE FUNCTION _judge(value double precision, threshold jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN value >= (threshold ->> 1)::double precision THEN 'critical'
        WHEN value >= (threshold ->> 0)::double precision THEN 'warning'
    END;
COMMENT ON FUNCTION _judge IS 'The severity of a value. Null: it is below both thresholds.';

CREATE FUNCTION _span(seconds jsonb) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN make_interval(secs => least((seconds #>> '{}')::double precision, 1e10));
COMMENT ON FUNCTION _span IS 'A threshold in seconds as an interval.';

CREATE FUNCTION _age(since timestamptz) RETURNS double precision
    LANGUAGE sql VOLATILE
    -- Infinite times cannot be subtracted, and greatest alone would ignore a null.
    RETURN CASE WHEN since IS NOT NULL THEN
        extract(epoch FROM clock_timestamp() - least(greatest(since, 'epoch'), clock_timestamp() + interval '1 year'))
    END;
COMMENT ON FUNCTION _age IS 'The seconds since a time. Negative: the seconds until then.';

CREATE FUNCTION _age_text(seconds double precision) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT CASE
            WHEN a.s < 1 THEN 'under a second'
            WHEN a.s < 60 THEN a.s || 's'
            WHEN a.s < 3600 THEN a.s / 60 || 'm' || coalesce(' ' || nullif(a.s % 60, 0) || 's', '')
            WHEN a.s < 86400 THEN a.s / 3600 || 'h' || coalesce(' ' || nullif(a.s % 3600 / 60, 0) || 'm', '')
            ELSE a.s / 86400 || 'd' || coalesce(' ' || nullif(a.s % 86400 / 3600, 0) || 'h', '')
        END
        FROM (SELECT floor(greatest(seconds, 0))::bigint AS s) AS a
    );
COMMENT ON FUNCTION _age_text IS 'A length of time in its two largest units, such as 12m 5s.';

CREATE FUNCTION _counted(number bigint, one text, many text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_char(number, 'FM999,999,999,999,999,999') || ' ' || CASE number WHEN 1 THEN one ELSE many END;
COMMENT ON FUNCTION _counted IS 'A number with separators of thousands, and its noun.';

CREATE FUNCTION _jobs_text(jobs bigint, counted_to bigint DEFAULT NULL, estimate bigint DEFAULT NULL) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN jobs > counted_to AND estimate > counted_to
            THEN 'about ' || _counted(round(estimate, 2 - floor(log(estimate))::integer)::bigint, 'job', 'jobs')
        WHEN jobs > counted_to THEN 'more than ' || _counted(counted_to, 'job', 'jobs')
        ELSE _counted(jobs, 'job', 'jobs')
    END;
COMMENT ON FUNCTION _jobs_text IS 'A number of jobs in words. Beyond counted_to, where counting stopped, the estimate is shown.';

CREATE FUNCTION _plain_text(given text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(
        given COLLATE "C", '[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']', ' ', 'g'
    );
COMMENT ON FUNCTION _plain_text IS 'A text without control characters, which the names in a sentence may have.';

CREATE FUNCTION _shell_word(word text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN word COLLATE "C" ~ '^[A-Za-z0-9_./:=@%+,-]+$' THEN word
        WHEN _plain_text(word) = word THEN '''' || replace(word, '''', '''' || chr(92) || '''''') || ''''
        -- bash, zsh and ksh read it.
        ELSE '$''' || (
            SELECT string_agg(
                CASE
                    WHEN c.one IN ('''', chr(92)) THEN chr(92) || c.one
                    WHEN _plain_text(c.one) <> c.one THEN chr(92) || 'u' || lpad(to_hex(ascii(c.one)), 4, '0')
                    ELSE c.one
                END, '' ORDER BY c.place
            )
            FROM regexp_split_to_table(word COLLATE "C", '') WITH ORDINALITY AS c (one, place)
        ) || ''''
    END;
COMMENT ON FUNCTION _shell_word IS 'A text as one word of a shell.';

CREATE FUNCTION _command(verb text, argument text) RETURNS text
    LANGUAGE sql STABLE
AS $$
SELECT format(
    CASE
        WHEN argument COLLATE "C" NOT LIKE '-%' THEN 'uniqueue %1$s %2$s%3$s'
        -- Otherwise it would be read as an option.
        WHEN verb COLLATE "C" LIKE '% --%' THEN 'uniqueue %1$s=%2$s%3$s'
        ELSE 'uniqueue %1$s%3$s -- %2$s'
    END,
    verb, _shell_word(argument), ' --schema ' || nullif(current_schema(), 'uniqueue')
)
$$;
COMMENT ON FUNCTION _command IS 'A call of the command uniqueue for this schema, as a line of a shell.';

CREATE FUNCTION _call(verb text, VARIADIC arguments text[]) RETURNS text
    LANGUAGE sql STABLE
AS $$
SELECT format('SELECT * FROM %I.%s(%s);', current_schema(), verb, string_agg(a.argument, ', ' ORDER BY a.place))
FROM unnest(arguments) WITH ORDINALITY AS a (argument, place)
$$;
COMMENT ON FUNCTION _call IS 'A call of a function of this schema. arguments: as they stand in SQL.';

CREATE FUNCTION _checks() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '{
        place, transactions, replication, notifications, indexes, tables, retention, runners, queues, queue limits, kinds, groups,
        jobs, suspects, expired jobs, rows, attempts, claims, maintenance, schedules, registered kinds, unregistered jobs
    }'::text[];
COMMENT ON FUNCTION _checks IS 'The checks of diagnose. The function _find_queue_limits makes the check queue limits.';

CREATE FUNCTION _find(check_name text, thresholds jsonb DEFAULT '{}') RETURNS SETOF finding
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT f.code, f.severity, _plain_text(f.subject), _plain_text(f.seen), f.advice, f.sql, f.command, f.facts FROM %I($1) AS f WHERE f.severity IS NOT NULL',
        '_find_' || replace(check_name, ' ', '_')
    ) USING _thresholds(thresholds);
END
$$;
COMMENT ON FUNCTION _find IS 'Makes one of the checks that _checks lists, by index. thresholds: as diagnose takes them.';

CREATE FUNCTION diagnose(thresholds jsonb DEFAULT '{}') RETURNS SETOF finding
    LANGUAGE plpgsql VOLATILE ROWS 10
AS $$
DECLARE
    check_name text;
    found finding[] := '{}';
BEGIN
    -- An unknown threshold is the caller's error.
    PERFORM _thresholds(thresholds);
    FOREACH check_name IN ARRAY _checks() LOOP
        BEGIN
            found := found || ARRAY(SELECT f FROM _find(check_name, thresholds) AS f);
        EXCEPTION
            WHEN others THEN
                found := found || ROW(
                    'check_failed', CASE SQLSTATE WHEN '42501' THEN 'notice' ELSE 'warning' END, 'check ' || check_name, SQLERRM,
                    CASE SQLSTATE
                        WHEN '42501' THEN 'Grant the role what the guide for operators lists for a reader, and pg_monitor'
                        ELSE 'See the server''s log'
                    END,
                    NULL, NULL, '{}'
                )::finding;
        END;
    END LOOP;
    RETURN QUERY
    SELECT f.*
    FROM unnest(found) AS f
    ORDER BY array_position('{critical, warning, notice}'::text[], f.severity), f.code, f.subject;
END
$$;
COMMENT ON FUNCTION diagnose IS 'Finds problems of the queue, the worst first. Changes nothing, and reads a bounded number of rows. A check that fails is a finding. A role outside of pg_monitor sees no sessions of other roles. thresholds: those that differ, such as {"waiting": ["30 s", "5 min"], "claim": "1 day"}. uniqueue doctor lists them, and also checks what only a client sees.';

-- The settings of functions, the rights that the public has not, and generated comments of columns and keys.

-- How functions are called and planned. doctor restores a function with the settings that it has from here.
--
-- A function for users, and every other one that a client, a view or a parsed body calls, finds the schema whatever the
-- search_path of its caller is. The functions that these call take all settings from them.
--
-- A session keeps the plans of a function after five calls, made for the tables as they are then. For a small table that would
-- be a scan. So the functions of work read by index, with one plan for all calls. Functions that stop at a limit also need an
-- index scan in order. Compiling (jit) takes ten times as long as running. The rare calls of maintenance are planned each time.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        (SELECT format('ALTER FUNCTION %s SET %s', p.oid::regprocedure, s.setting)
        FROM (
            VALUES
                (1, 'search_path FROM CURRENT', '{
                    _add_history, _add_parents, _apply_max_waiting, _available_queues, _bloated_indexes, _call,
                    _canonical_value, _check_claim_members, _check_edges, _check_key_members, _check_parents,
                    _check_pointers, _command, _complete_runs, _cover_holder, _delete_runs, _discard_unreadable,
                    _double_text, _end_future_times, _enter_worker, _estimated_jobs, _explain_insert, _fetch_jobs, _find,
                    _finish_runs, _histogram, _history_percentile, _hold_back, _insert_batch, _insert_graph, _insert_one,
                    _job_claim, _jobs_of_groups, _kind_digest, _lock_queue, _log_change, _may_notify, _next_jobs,
                    _note_deploy, _note_duplicates, _obstacle_reason, _obstacle_remedy, _place_periodic, _place_value,
                    _plain_jobs, _policy_length, _prune_jobs, _read_unique_policy, _refuse_beyond_max_waiting,
                    _refuse_member, _refuse_misplaced, _refuse_policy, _release_expired, _release_step, _replace_holder,
                    _retry_delay, _run_periodic_now, _run_service, _running_times, _set_aside, _settle, _spend_tokens,
                    _take_claims, _take_service, _tell_runners, _tend_history, _thresholds, _update_holder, _wake_releaser,
                    _wake_runners, _write_history, audit_duplicates, canonical_json, delete_jobs, diagnose, explain_unique,
                    extend_jobs, failing_codes, failing_errors, failing_kinds, fetch_jobs, finish_jobs, fold_duplicates,
                    groups, insert_job, insert_jobs, leave_tombstone, maintain, name_place, place_of, queues, register_kind,
                    release_claim, remove_kind, retentions, retry_jobs, run_periodic, set_periodic, set_queue, stop_worker,
                    stuck_jobs, try_jobs, unique_key, why_waiting
                }'::text[]),
                (2, 'plan_cache_mode = force_generic_plan', '{
                    _check_edges, _complete_runs, _delete_runs, _explain_insert, _fetch_jobs, _finish_runs, _insert_batch,
                    _insert_one, _jobs_of_groups, _note_duplicates, _refuse_beyond_max_waiting, _release_step, _settle, _spend_tokens,
                    _take_claims, delete_jobs, extend_jobs, fetch_jobs, finish_jobs, retry_jobs, try_jobs, why_waiting
                }'),
                (3, 'plan_cache_mode = force_custom_plan', '{
                    _add_parents, _check_parents, _discard_expired, _discard_unreadable, _insert_graph, _prune_jobs,
                    _run_service
                }'),
                (4, 'enable_seqscan = off SET jit = off', '{
                    _available_queues, _check_edges, _complete_runs, _delete_runs, _explain_insert, _fetch_jobs, _find,
                    _finish_runs, _insert_batch, _insert_one, _jobs_of_groups, _next_jobs, _refuse_beyond_max_waiting,
                    _release_step, _settle, _spend_tokens, _take_claims, delete_jobs, extend_jobs, failing_codes, failing_errors,
                    failing_kinds, fetch_jobs, finish_jobs, fold_duplicates, groups, queues, retentions, retry_jobs, stuck_jobs,
                    try_jobs, why_waiting
                }'),
                (5, 'enable_bitmapscan = off', '{
                    _available_queues, _find, _jobs_of_groups, _refuse_beyond_max_waiting, failing_codes, failing_kinds,
                    fold_duplicates, groups, queues, retentions, stuck_jobs, why_waiting
                }'),
                (6, 'jit = off', '{_tend_history, _write_history, maintain}')
        ) AS s (place, setting, functions)
        INNER JOIN pg_proc AS p ON p.proname::text = ANY (s.functions)
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
        ORDER BY s.place, p.oid::regprocedure::text COLLATE "C")
        UNION ALL
        -- A function that runs with the rights of the schema's owner is called by roles that were granted it. An insert notes
        -- its duplicates for any role.
        SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', p.oid::regprocedure)
        FROM pg_proc AS p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
            AND p.proname::text = ANY ('{
                _add_parents, _apply_max_waiting, _check_parents, _cover_holder, _note_deploy, _refuse_beyond_max_waiting,
                _refuse_misplaced, _release_expired, _replace_holder, _tend_history, _update_holder, _write_history,
                complete_jobs, extend_jobs, fail_jobs, fetch_jobs, finish_jobs, give_back_jobs, maintain, snooze_jobs,
                stop_worker
            }')
        UNION ALL
        -- The schema may have other tables. Those of the migrations have comments. A column of theirs without one means the first
        -- column of that name of these.
        SELECT format('COMMENT ON COLUMN %s.%I IS %L', v.oid::regclass, a.attname, m.meaning)
        FROM pg_class AS v
        JOIN pg_attribute AS a ON a.attrelid = v.oid AND a.attnum > 0
        CROSS JOIN LATERAL (
            SELECT col_description(o.attrelid, o.attnum) AS meaning
            FROM unnest('{job, queue, history, failing_kind, duplicate_count, duplicate_audit}'::regclass[]) WITH ORDINALITY AS t (oid, place)
            JOIN pg_attribute AS o ON o.attrelid = t.oid AND o.attname = a.attname
            ORDER BY t.place
            LIMIT 1
        ) AS m
        WHERE v.relnamespace = quote_ident(current_schema())::regnamespace AND v.relkind IN ('r', 'v')
            AND obj_description(v.oid, 'pg_class') IS NOT NULL AND col_description(v.oid, a.attnum) IS NULL
        UNION ALL
        SELECT format(
            'COMMENT ON CONSTRAINT %I ON %s IS %L', k.conname, k.conrelid::regclass,
            format('No two rows have the same values of: %s.', split_part(rtrim(pg_get_constraintdef(k.oid), ')'), '(', 2))
        )
        FROM pg_constraint AS k
        WHERE k.connamespace = quote_ident(current_schema())::regnamespace AND k.contype = 'p'
            AND obj_description(k.conrelid, 'pg_class') IS NOT NULL AND obj_description(k.oid, 'pg_constraint') IS NULL
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

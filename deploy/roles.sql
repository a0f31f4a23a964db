-- The grants of each role. Make the roles that you need, then run their parts as the owner of the schema uniqueue.
-- docs/operate/operations.md says what each role is for, SECURITY.md what it can do. Tests run each role with exactly
-- these grants.
--
-- After a restore with --no-privileges, run REVOKE EXECUTE ON FUNCTION … FROM PUBLIC for the functions of inserters and remote
-- workers, _apply_max_waiting, _refuse_beyond_max_waiting and _refuse_misplaced. Where a database revokes functions from PUBLIC,
-- run GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA uniqueue TO … after each migration.

-- Inserter. A service that inserts jobs, in Rust or with insert_job and insert_jobs. It needs _replace_holder only for replace
-- and preempt, _update_holder for update, _cover_holder for run_again, _check_parents and _add_parents for after.
GRANT USAGE ON SCHEMA uniqueue TO inserter;
GRANT SELECT, INSERT ON uniqueue.job TO inserter;
GRANT INSERT ON uniqueue.history_tally TO inserter;
GRANT SELECT ON uniqueue.runner, uniqueue.kind, uniqueue.place TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._release_expired(uuid), uniqueue._replace_holder(uuid, uuid, boolean) TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._update_holder(uuid, uniqueue.new_job[]) TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._cover_holder(uniqueue.job, uniqueue.new_job, boolean) TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._check_parents(uuid[], integer[]) TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._add_parents(uuid[], uuid[], text[], uuid[]) TO inserter;
GRANT EXECUTE ON FUNCTION uniqueue._write_history TO inserter;

-- Worker. A runner.
GRANT USAGE ON SCHEMA uniqueue TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON uniqueue.job, uniqueue.job_parent, uniqueue.runner, uniqueue.queue_group TO worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON uniqueue.prune_range TO worker;
GRANT SELECT, INSERT, UPDATE ON uniqueue.maintenance, uniqueue.periodic, uniqueue.kind TO worker;
GRANT SELECT, INSERT, UPDATE (jobs, last_at), DELETE ON uniqueue.change_log TO worker;
GRANT INSERT ON uniqueue.history_tally TO worker;
GRANT SELECT ON uniqueue.queue, uniqueue.place, uniqueue.schema_history TO worker;
GRANT INSERT (name, held_at, held_until), UPDATE (rate_full_at, held_at, held_until) ON uniqueue.queue TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._release_expired(uuid), uniqueue._replace_holder(uuid, uuid, boolean) TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._update_holder(uuid, uniqueue.new_job[]) TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._cover_holder(uniqueue.job, uniqueue.new_job, boolean) TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._check_parents(uuid[], integer[]) TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._add_parents(uuid[], uuid[], text[], uuid[]) TO worker;
GRANT EXECUTE ON FUNCTION uniqueue._write_history, uniqueue._tend_history, uniqueue._note_deploy TO worker;

-- Remote worker. A program in any language that works jobs by fetch_jobs and the functions beside it.
GRANT USAGE ON SCHEMA uniqueue TO remote_worker;
GRANT EXECUTE ON FUNCTION uniqueue.fetch_jobs, uniqueue.extend_jobs, uniqueue.finish_jobs TO remote_worker;
GRANT EXECUTE ON FUNCTION uniqueue.complete_jobs, uniqueue.fail_jobs, uniqueue.snooze_jobs TO remote_worker;
GRANT EXECUTE ON FUNCTION uniqueue.give_back_jobs, uniqueue.maintain, uniqueue.stop_worker TO remote_worker;

-- Operator. Inspects and changes jobs, sets queues, defines periodic jobs, registers kinds.
GRANT USAGE ON SCHEMA uniqueue TO operator;
GRANT SELECT, UPDATE, DELETE ON uniqueue.job, uniqueue.job_parent TO operator;
GRANT SELECT, INSERT, UPDATE, DELETE ON uniqueue.queue, uniqueue.queue_group, uniqueue.periodic, uniqueue.kind TO operator;
GRANT SELECT, INSERT, UPDATE, DELETE ON uniqueue.duplicate_audit TO operator;
GRANT SELECT, INSERT, UPDATE ON uniqueue.maintenance TO operator;
GRANT SELECT, INSERT, UPDATE (jobs, last_at) ON uniqueue.change_log TO operator;
GRANT SELECT ON uniqueue.runner, uniqueue.place, uniqueue.schema_history TO operator;
GRANT SELECT ON uniqueue.unique_claim, uniqueue.running_job, uniqueue.queue_status, uniqueue.failing_kind TO operator;
GRANT SELECT ON uniqueue.stuck_job, uniqueue.retention, uniqueue.table_health, uniqueue.waiting_insert TO operator;
GRANT SELECT ON uniqueue.group_status, uniqueue.expired_job, uniqueue.failing_code, uniqueue.waiting_child, uniqueue.suppressed_duplicate, uniqueue.suppressed_by_kind TO operator;
GRANT SELECT ON uniqueue.history, uniqueue.history_total, uniqueue.kind_history, uniqueue.deploy TO operator;
GRANT DELETE ON uniqueue.history_total TO operator;
GRANT EXECUTE ON FUNCTION uniqueue._write_history TO operator;

-- Reader. Inspects everything, changes nothing.
GRANT USAGE ON SCHEMA uniqueue TO reader;
GRANT SELECT ON uniqueue.job, uniqueue.job_parent, uniqueue.runner, uniqueue.queue, uniqueue.queue_group TO reader;
GRANT SELECT ON uniqueue.periodic, uniqueue.kind, uniqueue.maintenance, uniqueue.change_log, uniqueue.place, uniqueue.schema_history TO reader;
GRANT SELECT ON uniqueue.unique_claim, uniqueue.running_job, uniqueue.queue_status, uniqueue.failing_kind TO reader;
GRANT SELECT ON uniqueue.stuck_job, uniqueue.retention, uniqueue.table_health, uniqueue.waiting_insert TO reader;
GRANT SELECT ON uniqueue.group_status, uniqueue.expired_job, uniqueue.failing_code, uniqueue.waiting_child, uniqueue.suppressed_duplicate, uniqueue.suppressed_by_kind TO reader;
GRANT SELECT ON uniqueue.history, uniqueue.history_total, uniqueue.kind_history, uniqueue.deploy TO reader;

-- Observer. Reads every view but running_job, and no args, meta, output and progress.
GRANT USAGE ON SCHEMA uniqueue TO observer;
GRANT SELECT (id, kind, queue, state, priority, attempt, max_attempts, crashes, claims, errors) ON uniqueue.job TO observer;
GRANT SELECT (group_key, group_limit, in_order, began, reserved_until, expires_at, xmax) ON uniqueue.job TO observer;
GRANT SELECT (created_at, scheduled_at, attempted_at, finalized_at, worker, unique_until) ON uniqueue.job TO observer;
GRANT SELECT ON uniqueue.runner, uniqueue.queue, uniqueue.queue_group, uniqueue.maintenance, uniqueue.job_parent, uniqueue.place TO observer;
GRANT SELECT ON uniqueue.unique_claim, uniqueue.queue_status, uniqueue.failing_kind, uniqueue.stuck_job TO observer;
GRANT SELECT ON uniqueue.retention, uniqueue.table_health, uniqueue.waiting_insert TO observer;
GRANT SELECT ON uniqueue.group_status, uniqueue.expired_job, uniqueue.failing_code, uniqueue.waiting_child, uniqueue.suppressed_duplicate, uniqueue.suppressed_by_kind TO observer;
GRANT SELECT ON uniqueue.history, uniqueue.history_total, uniqueue.kind_history, uniqueue.deploy TO observer;

-- The quickest way for jobs whose keys are probably free. Runs with search_path set to the schema.
--
-- INSERT ... ON CONFLICT DO NOTHING looks into the index before each row, and writes of each row once more when it is
-- in. A plain INSERT does neither, at the price that one key that is taken is the end of the whole statement.

CREATE FUNCTION insert_new(
    ids uuid[],
    kinds text[],
    queues text[],
    args jsonb[],
    metas jsonb[],
    priorities smallint[],
    max_attempts smallint[],
    unique_keys text[],
    unique_states smallint[],
    until_starts boolean[],
    discards_on_reentry boolean[],
    patience text,
    looks boolean
)
RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    -- As in insert_jobs: one plan, made once, that probes by index however small the table was.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    caller_lock_timeout CONSTANT text := current_setting('lock_timeout');
    common_kind CONSTANT text := kinds[1];
    common_queue CONSTANT text := queues[1];
    common_meta CONSTANT jsonb := metas[1];
    common_priority CONSTANT smallint := priorities[1];
    common_max_attempts CONSTANT smallint := insert_new.max_attempts[1];
    common_states CONSTANT smallint := insert_new.unique_states[1];
    common_until_start CONSTANT boolean := until_starts[1];
    common_discard CONSTANT boolean := discards_on_reentry[1];
    are_in boolean := false;
BEGIN
    IF patience IS NOT NULL AND (caller_lock_timeout = '0' OR caller_lock_timeout::interval > patience::interval) THEN
        PERFORM set_config('lock_timeout', patience, true);
    END IF;
    -- So that a duplicate writes nothing: what an INSERT wrote before it met somebody would stay as dead rows.
    IF NOT looks OR NOT EXISTS (SELECT FROM job AS j WHERE j.unique_key = ANY (unique_keys) AND j.claims) THEN
        BEGIN
            IF greatest(
                cardinality(kinds), cardinality(queues), cardinality(metas), cardinality(priorities),
                cardinality(insert_new.max_attempts), cardinality(insert_new.unique_states), cardinality(until_starts),
                cardinality(discards_on_reentry)
            ) = 1 THEN
                -- To take eleven arrays apart is a tenth of what a few jobs cost.
                INSERT INTO job (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at,
                    unique_key, unique_states, until_start, discard_on_reentry
                )
                SELECT
                    u.id, common_kind, common_queue, u.args, common_meta, common_priority, common_max_attempts,
                    statement_timestamp(), statement_timestamp(), u.unique_key, common_states, common_until_start,
                    common_discard
                FROM unnest(ids, insert_new.args, unique_keys) AS u (id, args, unique_key);
            ELSE
                INSERT INTO job (
                    id, kind, queue, args, meta, priority, max_attempts, created_at, scheduled_at,
                    unique_key, unique_states, until_start, discard_on_reentry
                )
                SELECT
                    u.id, coalesce(u.kind, common_kind), coalesce(u.queue, common_queue), u.args,
                    coalesce(u.meta, common_meta), coalesce(u.priority, common_priority),
                    coalesce(u.max_attempts, common_max_attempts), statement_timestamp(), statement_timestamp(),
                    u.unique_key, CASE WHEN u.unique_key IS NOT NULL THEN coalesce(u.unique_states, common_states) END,
                    coalesce(u.until_start, common_until_start), coalesce(u.discard_on_reentry, common_discard)
                FROM unnest(
                    ids, kinds, queues, insert_new.args, metas, priorities, insert_new.max_attempts, unique_keys,
                    insert_new.unique_states, until_starts, discards_on_reentry
                ) AS u (
                    id, kind, queue, args, meta, priority, max_attempts, unique_key, unique_states, until_start,
                    discard_on_reentry
                );
            END IF;
            are_in := true;
        EXCEPTION
            WHEN unique_violation OR lock_not_available OR deadlock_detected THEN
                NULL;
        END;
    END IF;
    -- What the commit waits for is no such wait.
    PERFORM set_config('lock_timeout', caller_lock_timeout, true);
    IF NOT are_in THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM runner AS r WHERE r.idle AND r.queues && insert_new.queues) THEN
        PERFORM wake_runners(insert_new.queues);
    END IF;
    RETURN statement_timestamp();
END
$$;
COMMENT ON FUNCTION insert_new(
    uuid[], text[], text[], jsonb[], jsonb[], smallint[], smallint[], text[], smallint[], boolean[], boolean[], text,
    boolean
) IS
    'Inserts jobs with new ids and different keys that are probably free, all or none, and answers with the time that is theirs: null where none is in, since a key is taken, or a wait for somebody''s open transaction took longer than patience or ended in a deadlock. With looks they write nothing where a key is held already. They may run now, claim their keys by that, and have no deadline; an array of one element stands for all places.';

COMMENT ON FUNCTION give_back() IS
    'Fails with error UQ001, so that nothing of a statement counts. For clients of the version before.';

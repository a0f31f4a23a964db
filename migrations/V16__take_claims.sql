-- Taking claims back by one probe a key, whatever the planner believed. Runs with search_path set to
-- the schema.

CREATE OR REPLACE FUNCTION take_claims(ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE
    SET search_path FROM CURRENT
    SET lock_timeout = '10ms'
AS $$
-- A job that comes back to its unique states has yielded its claim in the same statement. Here it
-- takes the claim back if the key is free. Every contest is in a block of its own and lost within
-- 10 ms, within 1 ms once a batch has lost 100 ms, and after 300 ms the rest of the batch goes on
-- without its claims: contested keys never stop a batch, a promotion or a queue. The caller's rows
-- stay locked meanwhile, so an insert that waits for one of them and holds a contested key is in a
-- deadlock with this; it must be over before deadlock_timeout (1 s) makes that insert its victim.
--
-- The holder is sought by the key as a value and never by a join: a plan that was made, and kept,
-- while next to no key was claimed may join by reading every claim there is.
DECLARE
    comer record;
    patience text := current_setting('lock_timeout');
    discarded uuid[] := '{}';
    is_taken boolean;
    began timestamptz;
    lost interval := '0';
BEGIN
    FOR comer IN
        SELECT j.id, j.unique_key, j.discard_on_reentry
        FROM job AS j
        WHERE j.id = ANY (ids)
            AND j.unique_yielded
            AND j.unique_states & state_bit(j.state) <> 0
            AND (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
        ORDER BY j.unique_key, j.id
    LOOP
        is_taken := false;
        IF lost <= interval '300 ms' THEN
            began := clock_timestamp();
            BEGIN
                UPDATE job AS expired
                SET unique_states = 0
                WHERE expired.unique_key = comer.unique_key
                    AND expired.claims
                    AND expired.unique_until <= clock_timestamp();
                UPDATE job AS j
                SET unique_yielded = false
                WHERE j.id = comer.id
                    AND j.unique_yielded
                    AND j.unique_states & state_bit(j.state) <> 0
                    AND NOT EXISTS (
                        SELECT FROM job AS holder
                        WHERE holder.unique_key = comer.unique_key AND holder.claims
                    );
                is_taken := FOUND;
            EXCEPTION
                WHEN unique_violation OR lock_not_available OR deadlock_detected OR serialization_failure THEN
                    lost := lost + (clock_timestamp() - began);
                    IF lost > interval '100 ms' THEN
                        patience := '1ms';
                        PERFORM set_config('lock_timeout', patience, true);
                    END IF;
            END;
        END IF;
        IF NOT is_taken AND comer.discard_on_reentry THEN
            -- The row is the caller's own, so nobody's lock can hold this up; but lock_timeout also
            -- counts the wait for the table's next page, and this must not fail.
            PERFORM set_config('lock_timeout', '0', true);
            -- Only a holder that is there can cost a job its life: a contest lost to a transaction
            -- that is still open may have been lost to nobody.
            UPDATE job AS j
            SET state = 'discarded',
                finalized_at = clock_timestamp(),
                errors = j.errors || jsonb_build_object(
                    'attempt', j.attempt,
                    'at', clock_timestamp(),
                    'error', 'discarded on re-entry: another job holds the unique key'
                )
            WHERE j.id = comer.id
                AND j.unique_states & state_bit(j.state) <> 0
                AND j.state NOT IN ('completed', 'cancelled', 'discarded')
                AND EXISTS (
                    SELECT FROM job AS holder
                    WHERE holder.unique_key = comer.unique_key
                        AND holder.claims
                        AND holder.id <> comer.id
                        AND (holder.unique_until IS NULL OR holder.unique_until > clock_timestamp())
                );
            IF FOUND THEN
                discarded := discarded || comer.id;
            END IF;
            PERFORM set_config('lock_timeout', patience, true);
        END IF;
    END LOOP;
    RETURN discarded;
END
$$;

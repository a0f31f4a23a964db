-- The audit of suppressed duplicates goes on after its tally was full, and finds old counters by index. Runs with
-- search_path set to the queue's schema.

CREATE OR REPLACE FUNCTION fold_duplicates(size integer DEFAULT 10000) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER
    SET search_path FROM CURRENT
    -- Counters are looked for by the index in its order, however many of them are old: a bitmap would be made of all.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    -- Half of what ends the counting (see note_duplicates).
    large CONSTANT bigint := 32 * 1024 * 1024;
    instant CONSTANT timestamptz := clock_timestamp();
    audited text[];
    folded integer;
BEGIN
    -- Who has a kind's row folds the kind; two at once share them, and nobody waits.
    audited := ARRAY(SELECT a.kind FROM duplicate_audit AS a FOR NO KEY UPDATE SKIP LOCKED);
    WITH taken AS (
        DELETE FROM duplicate_tally AS t
        WHERE t.ctid = ANY (ARRAY(
            SELECT s.ctid
            FROM duplicate_tally AS s
            WHERE s.kind = ANY (audited) OR NOT EXISTS (SELECT FROM duplicate_audit AS a WHERE a.kind = s.kind)
            LIMIT size
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING t.at, t.holder, t.suppressed, t.kind, t.unique_key
    ),
    counted AS (
        INSERT INTO duplicate_count AS c (first_at, last_at, last_holder, suppressed, kind, unique_key)
        SELECT
            min(t.at), max(t.at), (array_agg(t.holder ORDER BY t.at DESC))[1], sum(t.suppressed), t.kind, t.unique_key
        FROM taken AS t
        WHERE t.kind = ANY (audited)
        GROUP BY t.kind, t.unique_key
        ON CONFLICT (unique_key, kind) DO UPDATE SET
            first_at = least(c.first_at, excluded.first_at),
            last_at = greatest(c.last_at, excluded.last_at),
            last_holder = CASE WHEN excluded.last_at >= c.last_at THEN excluded.last_holder ELSE c.last_holder END,
            suppressed = c.suppressed + excluded.suppressed
    ),
    totalled AS (
        UPDATE duplicate_audit AS a
        SET suppressed = a.suppressed + k.suppressed,
            last_at = greatest(a.last_at, k.last_at)
        FROM (
            SELECT t.kind, sum(t.suppressed) AS suppressed, max(t.at) AS last_at FROM taken AS t GROUP BY t.kind
        ) AS k
        WHERE a.kind = k.kind
    )
    SELECT count(*) INTO folded FROM taken;

    -- From one kind to the next along the index, and of each the oldest counters: those past their
    -- retention, and all of a kind that was forgotten. Kinds that somebody else folds are left to him.
    WITH RECURSIVE kinds AS (
        (SELECT c.kind FROM duplicate_count AS c ORDER BY c.kind LIMIT 1)
        UNION ALL
        SELECT n.kind
        FROM kinds AS k
        CROSS JOIN LATERAL (
            SELECT c.kind FROM duplicate_count AS c WHERE c.kind > k.kind ORDER BY c.kind LIMIT 1
        ) AS n
    ),
    doomed AS (
        SELECT d.ctid
        FROM kinds AS k
        LEFT JOIN duplicate_audit AS a ON a.kind = k.kind
        CROSS JOIN LATERAL (
            SELECT c.ctid
            FROM duplicate_count AS c
            WHERE c.kind = k.kind
                AND c.last_at < CASE
                    WHEN a.kind IS NULL THEN 'infinity'
                    -- Whatever somebody wrote for ever: no time is out of range.
                    ELSE instant - least(a.keep, interval '1000 years')
                END
            ORDER BY c.last_at
            LIMIT size
            -- Asked of the counter as it is when it is locked: it may have come to count again.
            FOR UPDATE SKIP LOCKED
        ) AS d
        WHERE a.kind IS NULL OR k.kind = ANY (audited)
        LIMIT size
    )
    DELETE FROM duplicate_count AS c
    WHERE c.ctid = ANY (ARRAY(SELECT d.ctid FROM doomed AS d));

    -- What was folded leaves its room behind, and by the room note_duplicates knows when to stop. Vacuum gives none
    -- back; and an old snapshot, which keeps vacuum from its work, is no hindrance here. By a lock that is there at once
    -- or not at all, so that no insert waits behind it; whoever notes has the table until its transaction ends, so what is
    -- empty now stays so. Under another isolation level what committed meanwhile would not be seen.
    IF folded < size
        AND current_setting('transaction_isolation') = 'read committed'
        AND pg_relation_size('duplicate_tally') >= large
        AND NOT EXISTS (SELECT FROM duplicate_tally)
    THEN
        BEGIN
            LOCK TABLE duplicate_tally IN ACCESS EXCLUSIVE MODE NOWAIT;
            IF NOT EXISTS (SELECT FROM duplicate_tally) THEN
                TRUNCATE duplicate_tally;
            END IF;
        EXCEPTION
            -- In use: the next fold tries again.
            WHEN lock_not_available OR object_in_use THEN
                NULL;
        END;
    END IF;
    RETURN folded;
END
$$;
COMMENT ON FUNCTION fold_duplicates(integer) IS
    'Folds up to size rows of duplicate_tally into the counters, and deletes up to size counters past their retention. Answers with how many rows it folded: where that is size, there may be more; where it is less, a duplicate_tally of 32 MB or more that is empty gives its room back, unless a transaction that is open has used it. Called by the runners'' pruner every prune_interval; without a runner call it from elsewhere, every minute say, in a transaction of its own.';
COMMENT ON COLUMN suppressed_by_kind.tally_is_full IS
    'Whether nothing is counted now because duplicate_tally has 64 MB: no runner folds it, or a transaction that is open has used it and keeps it from being emptied.';

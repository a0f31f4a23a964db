-- A producer in plain SQL, for any language, driver or function of your own. The jobs are part of the
-- transaction that inserts them.
BEGIN;

CREATE TABLE IF NOT EXISTS parcel (number bigint PRIMARY KEY, address text NOT NULL);
INSERT INTO parcel VALUES (7, 'Rose Lane 1'), (8, 'Rose Lane 2') ON CONFLICT DO NOTHING;

-- A plain job.
SELECT id, state, duplicate FROM uniqueue.insert_job('parcel.weigh', '{"parcel": 7}', queue => 'parcels');

-- Unique by kind and args: while the first job waits or runs, the second insert returns it as a duplicate.
SELECT id, state, duplicate
FROM uniqueue.insert_job(
    'parcel.ship', '{"parcel": 7}', queue => 'parcels', unique_policy => '{"keys": ["args"]}'
);
SELECT id, state, duplicate
FROM uniqueue.insert_job(
    'parcel.ship', '{"parcel": 7}', queue => 'parcels', unique_policy => '{"keys": ["args"]}'
);

-- One job for each row, in one statement. Parcels that have a job already are duplicates.
SELECT p.number, j.duplicate
FROM parcel AS p
CROSS JOIN LATERAL uniqueue.insert_job(
    'parcel.ship', jsonb_build_object('parcel', p.number), queue => 'parcels', priority => 5,
    unique_policy => '{"keys": ["args"]}'
) AS j
ORDER BY p.number;

COMMIT;

-- The result of an insert, and the reason, without inserting.
SELECT outcome, holder_state, frees
FROM uniqueue.explain_unique('parcel.ship', '{"parcel": 7}', 'parcels', unique_policy => '{"keys": ["args"]}');

-- A producer that is nothing but SQL: any language, any driver, psql, a function of the application's
-- own. The jobs are part of the transaction that they stand in.
BEGIN;

CREATE TABLE IF NOT EXISTS parcel (number bigint PRIMARY KEY, address text NOT NULL);
INSERT INTO parcel VALUES (7, 'Rose Lane 1'), (8, 'Rose Lane 2') ON CONFLICT DO NOTHING;

-- A plain job.
SELECT id, state, duplicate FROM uniqueue.insert_job('parcel.weigh', '{"parcel": 7}', queue => 'parcels');

-- Unique by kind and args: while one waits or runs, the next insert gets it back, flagged.
SELECT id, state, duplicate
FROM uniqueue.insert_job(
    'parcel.ship', '{"parcel": 7}', queue => 'parcels', unique_policy => '{"keys": ["args"]}'
);
SELECT id, state, duplicate
FROM uniqueue.insert_job(
    'parcel.ship', '{"parcel": 7}', queue => 'parcels', unique_policy => '{"keys": ["args"]}'
);

-- One for each row, in one statement: those that have a job already say so.
SELECT p.number, j.duplicate
FROM parcel AS p
CROSS JOIN LATERAL uniqueue.insert_job(
    'parcel.ship', jsonb_build_object('parcel', p.number), queue => 'parcels', priority => 5,
    unique_policy => '{"keys": ["args"]}'
) AS j
ORDER BY p.number;

COMMIT;

-- What an insert would do, and why; nothing is written.
SELECT would_insert, holder_state, frees
FROM uniqueue.explain_unique('parcel.ship', '{"parcel": 7}', 'parcels', unique_policy => '{"keys": ["args"]}');

-- The demo's own tables, as an application would have them beside the queue's. Any number of demos may create them at once.
DO $do$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('uniqueue demo tables', 0));
    IF to_regclass('uniqueue_demo.checksum') IS NOT NULL THEN
        RETURN;
    END IF;

    CREATE SCHEMA IF NOT EXISTS uniqueue_demo;
    COMMENT ON SCHEMA uniqueue_demo IS 'What `uniqueue demo` keeps of its runs. Drop it when you have seen enough.';

    CREATE TABLE uniqueue_demo.file (
        run_id uuid NOT NULL,
        job_id uuid NOT NULL,
        size bigint NOT NULL,
        adopted boolean NOT NULL,
        path text NOT NULL,
        -- Not by path: a path may be longer than an index entry.
        CONSTRAINT file_pkey PRIMARY KEY (run_id, job_id)
    );
    COMMENT ON TABLE uniqueue_demo.file IS 'One row a file and run, written in the transaction that inserts the file''s job.';
    COMMENT ON COLUMN uniqueue_demo.file.run_id IS 'The run that found it, a UUIDv7.';
    COMMENT ON COLUMN uniqueue_demo.file.job_id IS 'The job that reads it: job.id in the queue''s schema.';
    COMMENT ON COLUMN uniqueue_demo.file.size IS 'Its size in bytes when it was found.';
    COMMENT ON COLUMN uniqueue_demo.file.adopted IS 'Whether the job was in the queue already, left there by a run that was interrupted.';
    COMMENT ON COLUMN uniqueue_demo.file.path IS 'Its absolute path. A percent sign, a control character or a byte that is not UTF-8 is %NN.';
    COMMENT ON CONSTRAINT file_pkey ON uniqueue_demo.file IS 'Each file of a run has a job of its own.';

    CREATE TABLE uniqueue_demo.checksum (
        job_id uuid NOT NULL,
        lines bigint NOT NULL,
        bytes bigint NOT NULL,
        sha256 bytea NOT NULL,
        CONSTRAINT checksum_pkey PRIMARY KEY (job_id)
    );
    COMMENT ON TABLE uniqueue_demo.checksum IS 'What came of a job, written in the transaction that completes it: a job is completed exactly when it has a row here.';
    COMMENT ON COLUMN uniqueue_demo.checksum.job_id IS 'The job: file.job_id.';
    COMMENT ON COLUMN uniqueue_demo.checksum.lines IS 'Lines, the last one with or without its newline.';
    COMMENT ON COLUMN uniqueue_demo.checksum.bytes IS 'Bytes that were read.';
    COMMENT ON COLUMN uniqueue_demo.checksum.sha256 IS 'SHA-256 of those bytes.';
    COMMENT ON CONSTRAINT checksum_pkey ON uniqueue_demo.checksum IS 'A job completes once.';
END
$do$;

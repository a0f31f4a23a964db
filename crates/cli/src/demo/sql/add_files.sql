-- Writes down the files of a run, each with its job.
INSERT INTO uniqueue_demo.file (run_id, job_id, path, size, adopted)
SELECT $1, f.job_id, f.path, f.size, f.adopted
FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::boolean[]) AS f (job_id, path, size, adopted)

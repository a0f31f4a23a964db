CASE
    -- Empty JSON has no more than its length and its kind; a comparison would walk it.
    WHEN pg_column_size(j.meta) <= 8
        AND pg_column_size(j.errors) <= 8
        AND jsonb_typeof(j.errors) = 'array'
        AND j.output IS NULL
        AND j.progress IS NULL
        THEN NULL
    ELSE ROW(j.meta, j.errors, j.output, j.progress)
END AS papers

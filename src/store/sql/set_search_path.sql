-- Sets search_path until the transaction ends.
SELECT set_config('search_path', $1, true)

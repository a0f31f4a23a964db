-- Enters a queue of which nothing is set yet, so that there is a row to lock.
INSERT INTO /* schema */queue (name) VALUES ($1) ON CONFLICT (name) DO NOTHING

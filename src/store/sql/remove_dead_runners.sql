-- Removes runners that died a day ago and left no job behind.
SELECT /* schema */_remove_dead_runners()

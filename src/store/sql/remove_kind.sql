-- Forgets what was registered of a kind. Answers whether there was anything.
SELECT /* schema */remove_kind($1)

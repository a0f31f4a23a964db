-- The checks that the schema makes.
SELECT /* schema */_checks()

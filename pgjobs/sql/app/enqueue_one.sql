-- Insert one job, as enqueue.sql inserts many.
-- It names only the columns whose values are not the table's own: each other one costs
-- the driver, and the server, which reads and plans most of these statements each time.
INSERT INTO pgjobs_job ($given_columns)
VALUES ($given_values)
RETURNING $returned

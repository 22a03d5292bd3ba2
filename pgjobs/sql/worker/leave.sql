-- Remove the row of a worker that stops, and tell what is called by that how it ended. Jobs
-- it could not release are then rescued. If it has led, another one begins to: resign.sql.
WITH told AS MATERIALIZED (SELECT set_config('pgjobs.ends', %(how)s, true))
DELETE FROM pgjobs_worker USING told WHERE id = %(id)s
RETURNING CASE
    WHEN leads_until > clock_timestamp() THEN pg_notify('pgjobs_resigned', '')
END

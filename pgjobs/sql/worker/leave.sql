-- Remove the row of a worker that stops. Jobs it could not release are then rescued. If
-- it has led, another one begins to: resign.sql.
DELETE FROM pgjobs_worker WHERE id = %(id)s
RETURNING CASE
    WHEN leads_until > clock_timestamp() THEN pg_notify('pgjobs_resigned', '')
END

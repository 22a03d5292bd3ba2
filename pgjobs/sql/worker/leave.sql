-- Remove the row of a worker that stops. Jobs it could not release are then rescued.
DELETE FROM pgjobs_worker WHERE id = %(id)s

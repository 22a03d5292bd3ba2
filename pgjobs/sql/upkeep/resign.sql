-- Leave the upkeep to another worker, which need not wait to find that out.
UPDATE pgjobs_worker SET leads_until = NULL
WHERE id = %(worker_id)s AND leads_until IS NOT NULL
RETURNING pg_notify('pgjobs_resigned', '')

-- Whether a running job is still that of who claimed it with this token.
SELECT EXISTS (
    SELECT FROM pgjobs_job
    WHERE id = %(id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
)

-- Whether a running job still has the token of its claim.
SELECT EXISTS (
    SELECT FROM pgjobs_job
    WHERE id = %(id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
)

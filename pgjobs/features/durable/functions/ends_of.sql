-- Return how these jobs have ended, in the order of their ids, or NULL if one has not. Of
-- a job that goes on as another one the end of that one counts.
CREATE OR REPLACE FUNCTION pgjobs_ends_of(ids jsonb, OUT value jsonb, OUT since timestamptz)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT coalesce(jsonb_agg(
            jsonb_build_object(
                'id', named.id::bigint, 'status', CASE
                    WHEN job.keys ? 'continued_as' THEN 'GONE'
                    ELSE coalesce(job.status, 'GONE')
                END,
                'value', job.return_value, 'reason', coalesce(job.reason, '')
            ) || CASE  -- by which an encrypted result opens
                WHEN job.keys ? 'encrypted'
                    THEN jsonb_build_object('by', job.keys #> '{encrypted,by}')
                ELSE '{}'
            END ORDER BY named.place
        ), '[]'),
        coalesce(max(job.finished_at), clock_timestamp())
    INTO value, since
    FROM jsonb_array_elements_text(ids) WITH ORDINALITY AS named (id, place)
    LEFT JOIN pgjobs_job AS job ON job.id = pgjobs_newest(named.id::bigint)
    HAVING bool_or(job.id IS NOT NULL AND job.finished_at IS NULL) IS NOT TRUE;
END
$$;

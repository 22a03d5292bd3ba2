-- Return with which jobs of its task and queue a job may share a call: those with the same
-- key. NULL: with none, because it is not due. A job that waits for others of its task
-- alone (chunk_wait) counts as due. After a failed call the parts of it run apart (chunk),
-- until an attempt of the job has ended otherwise.
--
-- The index of the jobs of chunks calls this function. So it calls no other function of
-- ours, and nothing that depends on a setting. Never replace it: see holds_key.sql.
CREATE FUNCTION pgjobs_chunk_key(
    keys jsonb, kwargs jsonb, chunk jsonb, life integer, attempts integer, status text,
    run_after timestamptz, enqueued_at timestamptz
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF status = 'SCHEDULED' AND (
        attempts > 0 OR keys ?| ARRAY['after', 'after_batches']
        OR jsonb_typeof(keys -> 'chunk_wait') IS DISTINCT FROM 'number'
        OR abs(
            extract(epoch FROM run_after - enqueued_at) - (keys -> 'chunk_wait')::numeric
        ) > 0.000002
    ) THEN
        RETURN NULL;
    END IF;
    IF chunk ? 'part' AND chunk ->> 'attempt' = format('%s:%s', life, attempts) THEN
        RETURN 'part ' || left(chunk ->> 'part', 100);
    END IF;
    IF keys -> 'chunk_by' = '[]' OR jsonb_typeof(keys -> 'chunk_by') <> 'array' THEN
        RETURN '';
    END IF;
    RETURN md5(ARRAY(
        SELECT kwargs -> name
        FROM jsonb_array_elements_text(keys -> 'chunk_by') AS name
    )::text);
END
$$;

-- Return the line that the candidate's obstacle puts it in.
CREATE OR REPLACE FUNCTION pgjobs_line_of(candidate pgjobs_candidate) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE candidate.obstacle
        WHEN 'lock' THEN pgjobs_line(
            CASE WHEN candidate.is_ordered THEN 'lock' ELSE 'mutex' END,
            candidate.lock
        )
        WHEN 'limit' THEN pgjobs_line('limit', candidate.limit_key)
        WHEN 'rate' THEN pgjobs_line('rate', candidate.rate_key)
        WHEN 'dependency' THEN 'predecessor'
        WHEN 'unserved' THEN pgjobs_line('unserved', candidate.queue_name)
        ELSE candidate.obstacle
    END
$$;

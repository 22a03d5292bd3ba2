-- Raise an error unless this can be the `meta` of a job.
CREATE OR REPLACE FUNCTION pgjobs_check_meta(meta jsonb)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(meta) <> 'object' OR octet_length(meta::text) > 4000 THEN
        RAISE EXCEPTION 'meta must be a JSON object of no more than 4000 bytes.'
            USING ERRCODE = '22023', COLUMN = 'meta',
                HINT = 'It says where a job comes from: {"correlation_id": "a1"}. '
                    'Data belong into the arguments.';
    END IF;
END
$$;

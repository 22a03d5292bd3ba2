-- Refuse a subscription whose jobs would be refused, because each publication would
-- fail with them. This inserts such a job and rolls it back, so that it repeats no
-- rule. The id is one that no job gets: the next one of a sequence that is still behind
-- may be one of a dump that is just being restored.
CREATE OR REPLACE FUNCTION pgjobs_check_subscription() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_job (id, $subscribed_columns, expires_at, keys)
    SELECT 9223372036854775807, $subscribed_columns,
        clock_timestamp() + make_interval(secs => expires_in), keys
    FROM (SELECT NEW.*) AS subscription;
    RAISE 'It could be inserted.' USING ERRCODE = 'PJ000';
EXCEPTION WHEN SQLSTATE 'PJ000' THEN
    RETURN NULL;
END
$$;

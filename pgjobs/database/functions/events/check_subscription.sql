-- Refuse a subscription whose jobs would be refused, because each publication would
-- fail with them. This inserts such a job and rolls it back, so that it repeats no
-- rule.
CREATE OR REPLACE FUNCTION pgjobs_check_subscription() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_job ($subscribed_columns, expires_at, keys)
    SELECT $subscribed_columns,
        clock_timestamp() + make_interval(secs => expires_in), keys
    FROM (SELECT NEW.*) AS subscription;
    RAISE 'It could be inserted.' USING ERRCODE = 'PJ000';
EXCEPTION WHEN SQLSTATE 'PJ000' THEN
    RETURN NULL;
END
$$;

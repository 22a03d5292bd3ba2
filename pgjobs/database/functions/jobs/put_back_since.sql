-- Return since when workers put a job back whose task they do not know, as its reason says
-- it, or the present. It is text of the server's clock in UTC, which is compared as text: SQL
-- may have written anything. Whatever else becomes of the job gives it another reason.
CREATE OR REPLACE FUNCTION pgjobs_put_back_since(reason text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT least(
        substring(
            reason FROM ' Put back since (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\.$'
        ),
        to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
    )
$$;

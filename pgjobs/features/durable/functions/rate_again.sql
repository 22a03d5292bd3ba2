-- Return the keys with the rate that pgjobs_rate_aside has set aside, if there is one.
CREATE OR REPLACE FUNCTION pgjobs_rate_again(keys jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - 'rate_aside' || coalesce((keys -> 'rate_aside') - 'attempts', '{}')
$$;

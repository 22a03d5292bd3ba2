-- Return whether an event's name fits the pattern of a subscription.
CREATE OR REPLACE FUNCTION pgjobs_matches(pattern text, name text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT pattern = name
        OR right(pattern, 2) = '.*' AND starts_with(name, left(pattern, -1))
$$;

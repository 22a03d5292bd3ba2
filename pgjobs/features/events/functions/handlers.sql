-- Return the subscriptions that handle an event: each task once, even if several of its
-- patterns match.
CREATE OR REPLACE FUNCTION pgjobs_handlers(event_name text)
RETURNS SETOF pgjobs_subscription LANGUAGE sql STABLE AS $$
    SELECT DISTINCT ON (task) * FROM pgjobs_subscription
    WHERE inactive_at IS NULL AND pgjobs_matches(event, event_name)
    ORDER BY task, is_ordered DESC, id
$$;

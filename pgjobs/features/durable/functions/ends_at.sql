-- Return when a life ends that begins then, as it stands in `keys`: seconds since 1970.
CREATE OR REPLACE FUNCTION pgjobs_ends_at(keys jsonb, begins_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(keys -> 'deadline') = 'number' THEN jsonb_build_object(
            'ends_at', extract(epoch FROM begins_at) + (keys -> 'deadline')::numeric
        )
        ELSE '{}'
    END
$$;

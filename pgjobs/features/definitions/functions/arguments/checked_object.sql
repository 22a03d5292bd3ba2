-- Check an object by its schema: return it as it is stored, with the defaults filled in,
-- and what is wrong with which of its members. The arguments of a task are one, too.
CREATE OR REPLACE FUNCTION pgjobs_checked_object(
    schema jsonb, value jsonb, OUT stored jsonb, OUT names text[], OUT faults text[]
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(
            jsonb_object_agg(name, checked.stored) FILTER (
                WHERE checked.stored IS NOT NULL
            ),
            '{}'
        ),
        array_agg(name) FILTER (WHERE checked.fault IS NOT NULL),
        array_agg(checked.fault) FILTER (WHERE checked.fault IS NOT NULL)
    INTO stored, names, faults
    FROM (
        SELECT property.key, property.value,
            pgjobs_checked_object.value -> property.key,
            coalesce(schema -> 'required' ? property.key, false)
        FROM jsonb_each(schema -> 'properties') AS property
        UNION ALL
        SELECT other.key, coalesce(schema -> 'additionalProperties', '{}'),
            other.value, false
        FROM jsonb_each(pgjobs_checked_object.value) AS other
        WHERE NOT coalesce(schema -> 'properties' ? other.key, false)
            AND NOT schema ? 'x-others'  -- they are dropped
    ) AS member (name, rule, given, is_required)
    CROSS JOIN LATERAL pgjobs_checked_member(
        rule, given, is_required
    ) AS checked;
END
$$;

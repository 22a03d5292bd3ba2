-- Check the items of an array.
CREATE OR REPLACE FUNCTION pgjobs_checked_array(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(jsonb_agg(checked.stored ORDER BY place), '[]'),
        string_agg(
            format('[%s] ', place - 1) || checked.fault, '; ' ORDER BY place
        )
    INTO stored, fault
    FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place)
    CROSS JOIN LATERAL pgjobs_checked(
        coalesce(
            schema -> 'prefixItems' -> (place - 1)::integer, schema -> 'items', '{}'
        ),
        each
    ) AS checked;
    IF fault IS NULL AND schema ? 'uniqueItems' THEN  -- a set: it has one order
        SELECT coalesce(
            jsonb_agg(each ORDER BY pgjobs_json_text(each) COLLATE "C"), '[]'
        )
        INTO stored
        FROM (
            SELECT DISTINCT each FROM jsonb_array_elements(stored) AS item (each)
        ) AS member;
    END IF;
END
$$;

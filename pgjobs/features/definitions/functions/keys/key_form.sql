-- Return stored arguments in the form of which keys are made, which equal values share:
-- moments in UTC, and decimals without needless zeros. A test compares it with Python's.
CREATE OR REPLACE FUNCTION pgjobs_key_form(schema jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    is_set CONSTANT boolean := schema ? 'uniqueItems';
BEGIN
    IF schema::text !~ '"(date-time|decimal)"' OR schema ? 'x-checked-by' THEN
        RETURN value;
    ELSIF schema ->> 'format' = 'decimal' THEN
        RETURN to_jsonb(pgjobs_plain_decimal(value #>> '{}'));
    ELSIF schema ->> 'format' = 'date-time' THEN
        RETURN to_jsonb(pgjobs_in_utc(value #>> '{}'));
    ELSIF schema ? 'anyOf' THEN
        RETURN pgjobs_key_form(each, value)
        FROM jsonb_array_elements(schema -> 'anyOf') WITH ORDINALITY AS item (each, place)
        CROSS JOIN LATERAL pgjobs_checked(each, value) AS checked
        WHERE checked.fault IS NULL
        ORDER BY place LIMIT 1;
    ELSIF schema ->> 'type' = 'array' THEN
        RETURN coalesce(
            jsonb_agg(
                form ORDER BY
                    CASE WHEN is_set THEN pgjobs_json_text(form) END COLLATE "C", place
            ),
            '[]'
        )
        FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place)
        CROSS JOIN LATERAL pgjobs_key_form(
            coalesce(
                schema -> 'prefixItems' -> (place - 1)::integer, schema -> 'items', '{}'
            ),
            each
        ) AS form;
    END IF;
    RETURN coalesce(
        jsonb_object_agg(
            key,
            pgjobs_key_form(
                coalesce(
                    schema -> 'properties' -> key, schema -> 'additionalProperties',
                    '{}'
                ),
                member.value
            )
        ),
        '{}'
    )
    FROM jsonb_each(pgjobs_key_form.value) AS member;
END
$$;

"""Functions that check values by the JSON Schemas of the tasks' parameters.

What they accept, and the form in which it is stored, is what `hints.py` does with the
same hint: tests/test_sql_parity.py compares. What enqueues is in the next migration.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# Numbers: PostgreSQL has but one type in JSON. One with decimal places is a float here,
# any other an integer.
JSON = (
    """
    -- A float as Python writes it, which is what keys are made of.
    CREATE FUNCTION pgjobs_float_text(number numeric) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET extra_float_digits = 1 AS $$
    DECLARE
        digits text := number::float8::text;
    BEGIN
        IF digits ~ 'e[+]15$' THEN  -- Python begins with exponents at 16
            digits := digits::numeric::text;
        END IF;
        RETURN digits || CASE WHEN digits ~ '[.e]' THEN '' ELSE '.0' END;
    END
    $$;

    -- Compact, the keys of objects sorted: equal values give equal texts.
    CREATE FUNCTION pgjobs_json_text(value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        CASE jsonb_typeof(value)
        WHEN 'object' THEN
            RETURN '{' || coalesce(
                string_agg(
                    to_json(key)::text || ':' || pgjobs_json_text(each.value),
                    ',' ORDER BY key COLLATE "C"
                ),
                ''
            ) || '}' FROM jsonb_each(value) AS each;
        WHEN 'array' THEN
            RETURN '[' || coalesce(
                string_agg(pgjobs_json_text(each), ',' ORDER BY place), ''
            ) || ']'
            FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place);
        WHEN 'number' THEN
            RETURN CASE
                WHEN scale(value::numeric) > 0
                    THEN pgjobs_float_text(value::numeric)
                ELSE value::text
            END;
        ELSE
            RETURN value::text;
        END CASE;
    END
    $$;

    -- What Python could not read back, as `check_json` has it; NULL: nothing.
    CREATE FUNCTION pgjobs_json_fault(value jsonb, depth integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        kind text := jsonb_typeof(value);
    BEGIN
        IF kind = 'number' THEN
            IF octet_length(value::text) < 300 THEN
                RETURN NULL;
            ELSIF scale(value::numeric) = 0 THEN
                RETURN CASE WHEN abs(value::numeric) >= 2::numeric ^ 14000
                    THEN 'an integer has too many digits' END;
            END IF;
            RETURN CASE WHEN NOT pgjobs_fits_float(value::numeric)
                THEN 'inf is not JSON' END;
        ELSIF kind NOT IN ('object', 'array') THEN
            RETURN NULL;
        ELSIF depth >= 100 THEN
            RETURN 'is nested more than 100 deep';
        ELSIF kind = 'array' THEN
            RETURN fault
            FROM jsonb_array_elements(value) AS item (each)
            CROSS JOIN LATERAL pgjobs_json_fault(each, depth + 1) AS fault
            WHERE fault IS NOT NULL LIMIT 1;
        END IF;
        RETURN fault
        FROM jsonb_each(value) AS each
        CROSS JOIN LATERAL pgjobs_json_fault(each.value, depth + 1) AS fault
        WHERE fault IS NOT NULL LIMIT 1;
    END
    $$;

    CREATE FUNCTION pgjobs_fits_float(number numeric) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN abs(number) < 1.797693134862315807e308;
    END
    $$;

    CREATE FUNCTION pgjobs_shortened(value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CASE
            WHEN length(value::text) <= 100 THEN value::text
            ELSE left(value::text, 97) || '...'
        END;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_shortened(jsonb);
    DROP FUNCTION pgjobs_fits_float(numeric);
    DROP FUNCTION pgjobs_json_fault(jsonb, integer);
    DROP FUNCTION pgjobs_json_text(jsonb);
    DROP FUNCTION pgjobs_float_text(numeric);
    """,
)

# Dates and times as pydantic reads them in its strict JSON mode (but for numbers in a
# text, such as "1700000000"), and in the form in which it writes them; NULL: none.
TEXTS = (
    """
    CREATE FUNCTION pgjobs_is_date(year integer, month integer, day integer)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF year < 1 OR month NOT BETWEEN 1 AND 12 OR day NOT BETWEEN 1 AND 31 THEN
            RETURN false;
        END IF;
        RETURN day <= extract(
            day FROM make_date(year, month, 1) + interval '1 month - 1 day'
        );
    END
    $$;

    CREATE FUNCTION pgjobs_date(value text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        part text[] := regexp_match(value, '^([0-9]{4})-([0-9]{2})-([0-9]{2})$');
    BEGIN
        RETURN CASE
            WHEN pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int) THEN value
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_date_time(value text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        part text[] := regexp_match(
            value,
            '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt _]'
            '([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?'
            '(?:([Zz])|([-+])([0-9]{2}):?([0-9]{2}))?$'
        );
        fraction text;
    BEGIN
        IF part IS NULL
            OR NOT pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int)
            OR part[4] > '23' OR part[5] > '59' OR part[6] > '59'
            OR part[10] > '23' OR part[11] > '59'
        THEN
            RETURN NULL;
        END IF;
        fraction := rpad(left(part[7], 6), 6, '0');
        RETURN format(
            '%s-%s-%sT%s:%s:%s', part[1], part[2], part[3], part[4], part[5],
            coalesce(part[6], '00')
        ) || CASE WHEN fraction <> '000000' THEN '.' || fraction ELSE '' END
        || CASE
            WHEN part[8] IS NOT NULL OR part[10] || part[11] = '0000' THEN 'Z'
            WHEN part[9] IS NULL THEN ''
            ELSE part[9] || part[10] || ':' || part[11]
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_time(value text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN substr(pgjobs_date_time('2000-01-01T' || value), 12);
    END
    $$;

    -- As Python writes decimals; texts with an exponent, or that Python would give one,
    -- stay as they are.
    CREATE FUNCTION pgjobs_decimal(value jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        digits text := value #>> '{}';
    BEGIN
        IF jsonb_typeof(value) = 'number' THEN
            RETURN pgjobs_decimal_number(value::numeric);
        ELSIF jsonb_typeof(value) <> 'string' OR digits !~*
            '^ *[-+]?([0-9][0-9_]*([.][0-9_]*)?|[.][0-9][0-9_]*)(e[-+]?[0-9]+)? *$'
        THEN
            RETURN NULL;
        ELSIF digits ~* '[e_]' OR digits ~ '^ *-[0.]+ *$|[.]0{6}' THEN
            RETURN value;
        END IF;
        RETURN to_jsonb((btrim(digits)::numeric)::text);
    END
    $$;

    CREATE FUNCTION pgjobs_decimal_number(number numeric) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF scale(number) = 0 THEN
            RETURN to_jsonb(number::text);
        ELSIF NOT pgjobs_fits_float(number) THEN
            RETURN NULL;
        ELSIF number <> 0 AND abs(number) < 0.000001 THEN
            RETURN to_jsonb(replace(upper(pgjobs_float_text(number)), 'E-0', 'E-'));
        END IF;
        RETURN to_jsonb(trim_scale(pgjobs_float_text(number)::numeric)::text);
    END
    $$;

    CREATE FUNCTION pgjobs_uuid(value text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        hyphened text := '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';
    BEGIN
        IF value ~ ('^((urn:uuid:)?' || hyphened || '|[{]' || hyphened || '[}]'
            || '|[0-9A-Fa-f]{32})$')
        THEN
            RETURN replace(value, 'urn:uuid:', '')::uuid::text;
        END IF;
        RETURN NULL;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_uuid(text);
    DROP FUNCTION pgjobs_decimal_number(numeric);
    DROP FUNCTION pgjobs_decimal(jsonb);
    DROP FUNCTION pgjobs_time(text);
    DROP FUNCTION pgjobs_date_time(text);
    DROP FUNCTION pgjobs_date(text);
    DROP FUNCTION pgjobs_is_date(integer, integer, integer);
    """,
)

# Whether a value fits a schema, how it is stored, and otherwise why not.
CHECKED = (
    """
    CREATE FUNCTION pgjobs_checked(
        schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
    ) LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        kind text := jsonb_typeof(value);
        item text := NULL;  -- which kind of value it should be
    BEGIN
        IF schema ? 'x-checked-by' THEN  -- by Python, when the job runs
            stored := value;
            IF NOT schema -> 'x-types' ? kind THEN
                fault := 'input should be of the JSON type ' || (
                    SELECT string_agg(each, ' or ')
                    FROM jsonb_array_elements_text(schema -> 'x-types') AS item (each)
                );
            END IF;
        ELSIF schema ? 'enum' THEN
            stored := pgjobs_choice(schema -> 'enum', value);
            IF stored IS NULL THEN
                fault := 'input should be ' || pgjobs_listed(schema -> 'enum');
            END IF;
        ELSIF schema ->> 'format' = 'decimal' THEN
            stored := pgjobs_decimal(value);
            IF stored IS NULL THEN
                fault := 'input should be a valid decimal';
            END IF;
        ELSIF schema ? 'anyOf' THEN
            SELECT * INTO stored, fault
            FROM pgjobs_checked_by_any(schema -> 'anyOf', value);
            RETURN;  -- its faults say what they got
        ELSE
            CASE schema ->> 'type'
            WHEN 'integer' THEN
                stored := value;
                IF kind <> 'number' OR scale(value::numeric) > 0 THEN
                    fault := 'input should be a valid integer';
                END IF;
            WHEN 'string' THEN
                stored := value;
                IF kind <> 'string' THEN
                    item := 'string';
                ELSIF schema ? 'format' THEN
                    SELECT * INTO stored, fault
                    FROM pgjobs_formatted(schema ->> 'format', value #>> '{}');
                END IF;
            WHEN 'boolean' THEN
                stored := value;
                IF kind <> 'boolean' THEN
                    item := 'boolean';
                END IF;
            WHEN 'number' THEN
                IF kind <> 'number' THEN
                    item := 'number';
                ELSIF NOT pgjobs_fits_float(value::numeric) THEN
                    fault := 'inf is not JSON';
                ELSE  -- with a decimal place, by which it is a float
                    stored := to_jsonb(
                        CASE
                            WHEN length(value::text) <= 15 THEN value::numeric
                            ELSE pgjobs_float_text(value::numeric)::numeric
                        END + 0.0
                    );
                END IF;
            WHEN 'null' THEN
                stored := value;
                IF kind <> 'null' THEN
                    fault := 'input should be null';
                END IF;
            WHEN 'array' THEN
                IF kind <> 'array' THEN
                    item := 'array';
                ELSE
                    SELECT * INTO stored, fault
                    FROM pgjobs_checked_array(schema, value);
                END IF;
            WHEN 'object' THEN
                IF kind <> 'object' THEN
                    fault := 'input should be an object';
                ELSE
                    SELECT * INTO stored, fault
                    FROM pgjobs_checked_object(schema, value);
                END IF;
            ELSE
                stored := value;
            END CASE;
            IF item IS NOT NULL THEN
                fault := 'input should be a valid ' || item;
            ELSIF fault IS NULL AND schema ?| ARRAY[
                'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
                'minLength', 'maxLength', 'minItems', 'maxItems'
            ] THEN
                fault := pgjobs_limit_fault(schema, stored);
            END IF;
        END IF;
        IF fault IS NOT NULL AND left(fault, 1) <> '[' THEN
            fault := fault || ', got ' || pgjobs_shortened(value);
        END IF;
    END
    $$;

    -- As in Python 1, 1.0 and true are one value. It is stored as it was declared.
    CREATE FUNCTION pgjobs_choice(choices jsonb, value jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        numbers CONSTANT jsonb := '{"true": 1, "false": 0}';
    BEGIN
        IF jsonb_typeof(value) IN ('string', 'null') THEN
            RETURN CASE WHEN choices @> jsonb_build_array(value) THEN value END;
        END IF;
        RETURN choice FROM jsonb_array_elements(choices) AS item (choice)
        WHERE coalesce(numbers -> choice::text, choice)
            = coalesce(numbers -> value::text, value)
        LIMIT 1;
    END
    $$;

    CREATE FUNCTION pgjobs_listed(choices jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        words text[] := ARRAY(
            SELECT CASE jsonb_typeof(choice)
                WHEN 'string' THEN '''' || (choice #>> '{}') || ''''
                WHEN 'null' THEN 'None'
                WHEN 'boolean' THEN initcap(choice::text)
                ELSE choice::text
            END
            FROM jsonb_array_elements(choices) AS item (choice)
        );
        last text := words[cardinality(words)];
    BEGIN
        RETURN CASE
            WHEN cardinality(words) = 1 THEN last
            ELSE array_to_string(trim_array(words, 1), ', ') || ' or ' || last
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_checked_by_any(
        schemas jsonb, value jsonb, OUT stored jsonb, OUT fault text
    ) LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        schema jsonb;
        faults text[];
    BEGIN
        FOR schema IN SELECT * FROM jsonb_array_elements(schemas) LOOP
            SELECT * INTO stored, fault FROM pgjobs_checked(schema, value);
            IF fault IS NULL THEN
                RETURN;
            ELSIF schema ->> 'type' IS DISTINCT FROM 'null' THEN
                faults := faults || fault;
            END IF;
        END LOOP;
        fault := array_to_string(faults, '; ');
    END
    $$;

    CREATE FUNCTION pgjobs_formatted(
        format text, value text, OUT stored jsonb, OUT fault text
    ) LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        CASE format
        WHEN 'date' THEN
            stored := to_jsonb(pgjobs_date(value));
            fault := 'input should be a valid date in the format YYYY-MM-DD';
        WHEN 'date-time' THEN
            stored := to_jsonb(pgjobs_date_time(value));
            fault := 'input should be a valid datetime';
        WHEN 'time' THEN
            stored := to_jsonb(pgjobs_time(value));
            fault := 'input should be in a valid time format';
        WHEN 'uuid' THEN
            stored := to_jsonb(pgjobs_uuid(value));
            fault := 'input should be a valid UUID';
        END CASE;
        IF stored IS NOT NULL THEN
            fault := NULL;
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_checked_array(
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
    END
    $$;

    CREATE FUNCTION pgjobs_checked_object(
        schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
    ) LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        SELECT coalesce(jsonb_object_agg(key, checked.stored), '{}'),
            string_agg(format('[''%s''] ', key) || checked.fault, '; ')
        INTO stored, fault
        FROM jsonb_each(value) AS item (key, each)
        CROSS JOIN LATERAL pgjobs_checked(
            coalesce(schema -> 'additionalProperties', '{}'), each
        ) AS checked;
    END
    $$;

    CREATE FUNCTION pgjobs_limit_fault(schema jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        is_array CONSTANT boolean := jsonb_typeof(value) = 'array';
        noun CONSTANT text := CASE WHEN is_array THEN 'items' ELSE 'characters' END;
        least text := coalesce(schema ->> 'minItems', schema ->> 'minLength');
        most text := coalesce(schema ->> 'maxItems', schema ->> 'maxLength');
        size integer;
    BEGIN
        IF jsonb_typeof(value) = 'number' THEN
            RETURN 'input should be ' || CASE
                WHEN value < schema -> 'minimum'
                    THEN 'greater than or equal to ' || (schema ->> 'minimum')
                WHEN value <= schema -> 'exclusiveMinimum'
                    THEN 'greater than ' || (schema ->> 'exclusiveMinimum')
                WHEN value > schema -> 'maximum'
                    THEN 'less than or equal to ' || (schema ->> 'maximum')
                WHEN value >= schema -> 'exclusiveMaximum'
                    THEN 'less than ' || (schema ->> 'exclusiveMaximum')
            END;
        END IF;
        size := CASE
            WHEN is_array THEN jsonb_array_length(value) ELSE length(value #>> '{}')
        END;
        RETURN CASE
            WHEN size < least::integer
                THEN format('should have at least %s %s', least, noun)
            WHEN size > most::integer
                THEN format('should have at most %s %s', most, noun)
        END;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_limit_fault(jsonb, jsonb);
    DROP FUNCTION pgjobs_checked_object(jsonb, jsonb);
    DROP FUNCTION pgjobs_checked_array(jsonb, jsonb);
    DROP FUNCTION pgjobs_formatted(text, text);
    DROP FUNCTION pgjobs_checked_by_any(jsonb, jsonb);
    DROP FUNCTION pgjobs_listed(jsonb);
    DROP FUNCTION pgjobs_choice(jsonb, jsonb);
    DROP FUNCTION pgjobs_checked(jsonb, jsonb);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0007_queues")]

    operations = [
        RunPostgreSQL(*JSON),
        RunPostgreSQL(*TEXTS),
        RunPostgreSQL(*CHECKED),
    ]

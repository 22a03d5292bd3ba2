-- Return what the row of a job keeps when its worker was lost under a call of several jobs:
-- in which half of the call it was. Nobody knows the guilty one, so the halves run apart,
-- and alone in their process. NULL: it ran in no such call, so this was a crash of its own.
CREATE OR REPLACE FUNCTION pgjobs_halved_call(
    chunk jsonb, life integer, attempts integer
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF chunk ->> 'attempt' = format('%s:%s', life, attempts)
        AND chunk ->> 'place' ~ '^[1-9][0-9]{0,8}$'
        AND chunk ->> 'members' ~ '^[1-9][0-9]{0,8}$' AND chunk ->> 'members' <> '1'
    THEN
        RETURN jsonb_build_object(
            'attempt', chunk -> 'attempt', 'alone', chunk -> 'attempt',
            'call', chunk -> 'call', 'first', chunk -> 'first',
            'part', format(
                '%s.%s', chunk ->> 'call',
                (
                    2 * ((chunk -> 'place')::bigint - 1) >= (chunk -> 'members')::bigint
                )::integer
            )
        ) || CASE WHEN chunk ? 'ids' THEN jsonb_build_object('ids', chunk -> 'ids')
            ELSE '{}' END;
    END IF;
    RETURN NULL;
END
$$;

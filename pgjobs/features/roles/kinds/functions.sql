DO $$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN
        SELECT oid FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%' AND pronamespace = '{schema}'::regnamespace
            AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO {role}', routine);
    END LOOP;
END
$$;

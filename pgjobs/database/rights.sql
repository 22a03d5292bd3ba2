-- PUBLIC may execute none of our functions, except those that a role with rights on the
-- tables alone needs for writing rows:
--
-- - is_job and holds_key: a constraint and an index of pgjobs_job call them;
-- - provide, first_obstacle, first_line, leave_note, follow_up, enqueued_in, cluster,
--   ends_for_others, fault_of_results, paused_line, line, changes_flow, keys_now and
--   rate_number: triggers of pgjobs_job call them with the
--   rights of the statement that fires them;
-- - token_beyond: claims name it, and a role may have been made before it was;
-- - free_keys and replace_held: `enqueue` calls them where a unique key is taken.
--
-- All of these run with their caller's rights, and lend none. (A trigger function needs
-- no right to fire.) This runs after each installation, because a new function may be
-- executed by PUBLIC until it is revoked.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            CASE
                WHEN proname IN (
                    'pgjobs_is_job', 'pgjobs_holds_key', 'pgjobs_provide',
                    'pgjobs_first_obstacle', 'pgjobs_first_line', 'pgjobs_leave_note',
                    'pgjobs_free_keys', 'pgjobs_replace_held', 'pgjobs_follow_up',
                    'pgjobs_token_beyond', 'pgjobs_enqueued_in', 'pgjobs_cluster',
                    'pgjobs_ends_for_others', 'pgjobs_fault_of_results',
                    'pgjobs_paused_line', 'pgjobs_line', 'pgjobs_changes_flow',
                    'pgjobs_keys_now', 'pgjobs_rate_number'
                )
                    THEN 'GRANT EXECUTE ON ROUTINE %s TO PUBLIC'
                ELSE 'REVOKE ALL ON ROUTINE %s FROM PUBLIC'
            END,
            oid::regprocedure
        )
        FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%'
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

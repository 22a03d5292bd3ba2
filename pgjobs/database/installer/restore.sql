-- Undo prepare.sql for the rest of the migration's transaction.
SELECT set_config('search_path', current_setting('pgjobs.search_path'), true),
    set_config('check_function_bodies', 'on', true)

-- Names in what follows mean the schema of our tables, also when a function is called
-- later (SET search_path FROM CURRENT). Functions may call others that come later.
SELECT set_config('pgjobs.search_path', current_setting('search_path'), true);
SELECT set_config('search_path', relnamespace::regnamespace || ', pg_temp', true),
    set_config('check_function_bodies', 'off', true)
FROM pg_class WHERE oid = 'pgjobs_job'::regclass

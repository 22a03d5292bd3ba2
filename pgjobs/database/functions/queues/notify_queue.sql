-- Wake the workers of a queue that was resumed or has more room, also by SQL.
CREATE OR REPLACE FUNCTION pgjobs_notify_queue() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('pgjobs', OLD.name);
    -- Admissions have skipped the lines that have only jobs of this queue.
    PERFORM pg_catalog.pg_notify('pgjobs_admission', 'sweep');
    RETURN NULL;
END
$$;

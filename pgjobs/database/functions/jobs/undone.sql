-- Refuse a change of a row that undoes what has happened to the job: within a life its
-- attempts and its lease token only rise, and it ends once. Only the revival of a
-- cancelled job goes on with the same life.
CREATE OR REPLACE FUNCTION pgjobs_undone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'Job % cannot go back: from % (life %, attempts %) to % (life %, attempts %).',
        OLD.id, OLD.status, OLD.life, OLD.attempts, NEW.status, NEW.life, NEW.attempts
        USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job',
            HINT = 'The row was written with older values, as save() of an instance '
                'does. To run a finished job again, call job.retry() or '
                'pgjobs_retry(id).';
END
$$;

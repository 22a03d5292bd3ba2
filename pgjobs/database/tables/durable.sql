-- As tables/jobs.sql did it for the tables of its time: texts are of the type text, and a
-- constraint keeps the greatest length.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('ALTER TABLE %s %s', attrelid::regclass, string_agg(
            format('ALTER COLUMN %I TYPE text', attname), ', '
        )) || format(
            ', ADD CONSTRAINT %I CHECK (%s)', relname || '_lengths', string_agg(
                format('length(%I) <= %s', attname, atttypmod - 4), ' AND '
            )
        )
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relname IN ('pgjobs_wait', 'pgjobs_answer', 'pgjobs_awaitedevent')
            AND attnum > 0
            AND relnamespace = quote_ident(current_schema())::regnamespace
            AND atttypid = 'varchar'::regtype
        GROUP BY attrelid, relname
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- In the order of bytes the names of one prefix stand together.
ALTER TABLE pgjobs_awaitedevent
    ALTER COLUMN name TYPE text COLLATE "C",
    -- It goes with its event, also by SQL.
    ADD CONSTRAINT pgjobs_awaitedevent_event
        FOREIGN KEY (event_id) REFERENCES pgjobs_event (id) ON DELETE CASCADE;
-- Compared with those names: an index serves one collation.
ALTER TABLE pgjobs_wait ALTER COLUMN event TYPE text COLLATE "C";

-- No row that SQL has written may stop a statement of a worker.
ALTER TABLE pgjobs_wait ADD CONSTRAINT pgjobs_wait_values CHECK (
    kind IN ('answer', 'event', 'jobs')
    AND (kind = 'event') = (event IS NOT NULL)
    AND least(deadline, opened_at, ended_at) >= '1970-01-01 00:00+00'
    AND greatest(deadline, opened_at, ended_at) < '9999-01-01 00:00+00'
);
ALTER TABLE pgjobs_answer ADD CONSTRAINT pgjobs_answer_value CHECK (
    name <> '' AND value <> 'null' AND octet_length(value::text) <= 1000000
);
ALTER TABLE pgjobs_waitnote ADD CONSTRAINT pgjobs_waitnote_one CHECK (
    num_nonnulls(job_id, event_id) = 1
    AND due_at >= '1970-01-01 00:00+00' AND due_at < '9999-01-01 00:00+00'
);

-- Notes come and go all the time.
ALTER TABLE pgjobs_waitnote SET (fillfactor = 50, vacuum_truncate = off);
ALTER TABLE pgjobs_wait SET (vacuum_truncate = off);
ALTER TABLE pgjobs_answer SET (vacuum_truncate = off);
ALTER TABLE pgjobs_awaitedevent SET (vacuum_truncate = off);

-- Each event that is published asks the tasks that wait for events.
CREATE INDEX pgjobs_taskdefinition_waits ON pgjobs_taskdefinition (id)
    WHERE options ? 'waits_for';

-- The lives that a deadline bounds, by their ends. Those that have not begun are not in it:
-- their jobs are not due, or wait for predecessors.
CREATE INDEX IF NOT EXISTS pgjobs_job_ends ON pgjobs_job ((keys -> 'ends_at'))
    WHERE keys ? 'deadline' AND finished_at IS NULL
        AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
            AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'));

-- The jobs that may yet ask for events, by what they may ask for, as a digest: an entry of an
-- index must be short.
CREATE INDEX IF NOT EXISTS pgjobs_job_takes
    ON pgjobs_job (md5(keys ->> 'waits_for'), enqueued_at)
    WHERE keys ? 'waits_for' AND finished_at IS NULL
        AND coalesce(waiting_for, '') NOT IN ('answer', 'event', 'jobs');

COMMENT ON COLUMN pgjobs_job.waiting_for IS
    'The first obstacle of a WAITING job: predecessor, dependency, lock, limit or rate; '
    'or answer, event or jobs, for which its task waits. NULL: it is not WAITING.';

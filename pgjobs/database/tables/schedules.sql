-- Ticks are deleted with their schedule, also by SQL. With their job a trigger deletes
-- them: see functions/jobs/jobs_deleted.sql.
ALTER TABLE pgjobs_tick ADD CONSTRAINT pgjobs_tick_schedule
    FOREIGN KEY (schedule_id) REFERENCES pgjobs_schedule (id) ON DELETE CASCADE;

-- Refuse what SQL could insert and a worker could not read.
ALTER TABLE pgjobs_schedule
    ADD CONSTRAINT pgjobs_schedule_arguments CHECK (
        jsonb_typeof(args) = 'array' AND jsonb_typeof(kwargs) = 'object'
        AND pg_column_size(args) + pg_column_size(kwargs) <= 1000000
    ),
    ADD CONSTRAINT pgjobs_schedule_words CHECK (
        anchor IN ('start', 'end') AND overlap IN ('skip', 'allow')
        AND catch_up IN ('latest', 'all', 'none') AND task <> '' AND name <> ''
    ),
    ADD CONSTRAINT pgjobs_schedule_times CHECK (
        least(next_run_at, origin_at, start_at, end_at, last_run_at)
            >= '1970-01-01 00:00+00'
        AND greatest(next_run_at, origin_at, start_at, end_at, last_run_at)
            < '9999-01-01 00:00+00'
    );

ALTER TABLE pgjobs_tick ADD CONSTRAINT pgjobs_tick_time CHECK (
    time BETWEEN '1970-01-01 00:00+00' AND '9999-01-01 00:00+00'
);

ALTER TABLE pgjobs_schedule SET (fillfactor = 50, vacuum_truncate = off);

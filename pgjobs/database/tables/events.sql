-- Deliveries are deleted with their event, also by SQL. With their job a trigger deletes
-- them: see functions/jobs/jobs_deleted.sql.
ALTER TABLE pgjobs_delivery ADD CONSTRAINT pgjobs_delivery_event
    FOREIGN KEY (event_id) REFERENCES pgjobs_event (id) ON DELETE CASCADE;

-- Refuse what SQL could insert and a worker could not read.
ALTER TABLE pgjobs_event
    ADD CONSTRAINT pgjobs_event_name CHECK (
        name <> '' AND name !~ '[*[:space:][:cntrl:]]'
    ),
    ADD CONSTRAINT pgjobs_event_payload CHECK (
        jsonb_typeof(payload) = 'object'
        -- It becomes the arguments of jobs: see functions/jobs/check_job.sql.
        AND (
            pg_column_size(payload) <= 2000 OR octet_length(payload::text) <= 50000000
        )
    ),
    ADD CONSTRAINT pgjobs_event_ids CHECK (
        aggregate_id <> '' AND correlation_id <> ''
    ),
    ADD CONSTRAINT pgjobs_event_time CHECK (
        published_at >= '1970-01-01 00:00+00'
        AND published_at < '9999-01-01 00:00+00'
    );

-- In the order of bytes the names of one prefix stand together: see
-- functions/events/deliver_late.sql.
ALTER TABLE pgjobs_event ALTER COLUMN name TYPE text COLLATE "C";

-- Truncation would take an exclusive lock and make every publisher wait.
ALTER TABLE pgjobs_event SET (vacuum_truncate = off);
ALTER TABLE pgjobs_delivery SET (vacuum_truncate = off);

-- Raise an error that says what is wrong if a row cannot be a job. This checks the
-- columns that a claim and a success change; functions/jobs/check_job.sql checks the
-- others. PostgreSQL parses the expression of a constraint with each statement, and
-- calls its function for each version of a row, so fewer columns are cheaper.
--
-- Never replace it: rows that exist would not be checked again. A change is a function
-- with a new name in a file of its own, and a new constraint that calls it. A migration
-- creates both and drops the old ones.
CREATE FUNCTION pgjobs_is_job(
    status text, worker_id bigint, waiting_for text, run_after timestamptz,
    attempts integer, failures integer, crashes smallint, lease_token bigint,
    started_at timestamptz, last_attempted_at timestamptz, finished_at timestamptz,
    line text, turn bigint
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    fault text;
BEGIN
    -- Nearly all rows are of this kind: a plain job that waits, runs or has succeeded.
    -- One expression for them takes a quarter less time than to look for each fault.
    IF (
        CASE status
            WHEN 'READY' THEN worker_id IS NULL AND finished_at IS NULL
            WHEN 'RUNNING' THEN worker_id IS NOT NULL AND finished_at IS NULL
            WHEN 'SUCCESSFUL' THEN worker_id IS NULL AND finished_at IS NOT NULL
            ELSE false
        END
        AND waiting_for IS NULL AND line IS NULL
        AND least(attempts, failures, crashes, lease_token, turn) >= 0
        AND greatest(failures, crashes) <= attempts
        AND coalesce(
            least(started_at, last_attempted_at, finished_at) >= '1970-01-01 00:00+00'
            AND greatest(started_at, last_attempted_at, finished_at)
                < '9999-01-01 00:00+00',
            true
        )
    ) THEN
        RETURN true;
    END IF;
    fault := CASE
        WHEN (status = 'RUNNING') <> (worker_id IS NOT NULL)
            THEN 'it has a worker_id if, and only if, its status is RUNNING'
        WHEN (finished_at IS NOT NULL)
            <> (status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED'))
            THEN 'it has a finished_at if, and only if, its status is SUCCESSFUL, '
                'FAILED or CANCELLED'
        WHEN (status = 'WAITING') <> (waiting_for IS NOT NULL)
            THEN 'it has a waiting_for if, and only if, its status is WAITING'
        WHEN status = 'SCHEDULED' AND run_after IS NULL
            THEN 'it needs a run_after to be SCHEDULED'
        WHEN finished_at IS NULL
            AND status NOT IN ('READY', 'RUNNING', 'SCHEDULED', 'WAITING')
            THEN format('there is no status %L', status)
        WHEN least(attempts, failures, crashes, lease_token, turn) < 0
            THEN 'attempts, failures, crashes, lease_token and turn only rise'
        WHEN greatest(failures, crashes) > attempts
            THEN 'there cannot be more failures or crashes than attempts'
        WHEN least(started_at, last_attempted_at, finished_at)
                < '1970-01-01 00:00+00'
            OR greatest(started_at, last_attempted_at, finished_at)
                >= '9999-01-01 00:00+00'
            THEN 'all times must be from 1970 to 9998'
    END;
    -- PostgreSQL prepares an expression once in each transaction that comes to it.
    IF fault IS NULL AND (line IS NOT NULL OR status = 'WAITING') THEN
        fault := CASE
            WHEN CASE
                    WHEN line IS NULL THEN true
                    WHEN line = 'recorded' THEN finished_at IS NULL
                    WHEN line = 'left' THEN status IN ('READY', 'RUNNING', 'WAITING')
                    WHEN line = 'unlinked' THEN status NOT IN ('WAITING', 'SCHEDULED')
                    ELSE status <> 'WAITING'
                END
                THEN format(
                    'a job that is %s cannot stand in the line %L', status, line
                )
        END;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE 'This is no job: %.', fault
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job';
    END IF;
    RETURN true;
END
$$;

DROP INDEX pgjobs_taskdefinition_waits;
DROP INDEX pgjobs_job_ends;
DROP INDEX pgjobs_job_takes;
COMMENT ON COLUMN pgjobs_job.waiting_for IS
    'The first obstacle of a WAITING job: predecessor, dependency, lock, limit or rate. '
    'NULL: it is not WAITING.';

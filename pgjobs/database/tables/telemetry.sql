-- What belongs together is found by its correlation id. Most jobs have none.
CREATE INDEX pgjobs_job_correlation ON pgjobs_job ((meta -> 'correlation_id'))
    WHERE (meta -> 'correlation_id') IS NOT NULL;

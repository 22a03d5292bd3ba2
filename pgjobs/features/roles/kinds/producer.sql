-- Other programs: enqueue with SQL. They get the columns that describe a job, and not its
-- id, status or counters.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON pgjobs_taskdefinition, pgjobs_override TO {role};
GRANT SELECT ON pgjobs_job, pgjobs_batch TO {role};
GRANT INSERT (description) ON pgjobs_batch TO {role};
GRANT INSERT (
    {columns}
) ON pgjobs_job TO {role};
GRANT USAGE ON SEQUENCE pgjobs_turn TO {role};
{functions}

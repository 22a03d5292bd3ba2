-- The web processes: enqueue, publish, act on jobs, pause queues, change schedules.
-- They run no jobs: they write no workers and ticks.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON django_migrations TO {role};
GRANT SELECT ON
    pgjobs_attempt, pgjobs_auditentry, pgjobs_batch, pgjobs_codeversion, pgjobs_delivery,
    pgjobs_errorgroup, pgjobs_event, pgjobs_figure, pgjobs_job, pgjobs_manifest,
    pgjobs_note, pgjobs_predecessor, pgjobs_prerequisite, pgjobs_progress, pgjobs_queue, pgjobs_rate,
    pgjobs_schedule, pgjobs_step, pgjobs_subscription, pgjobs_taskdefinition, pgjobs_tick,
    pgjobs_worker
TO {role};
-- They answer what tasks ask, mark steps by hand, and retry jobs with their steps.
GRANT SELECT, INSERT, UPDATE, DELETE ON pgjobs_answer, pgjobs_wait, pgjobs_waitnote
TO {role};
GRANT SELECT, INSERT ON pgjobs_awaitedevent TO {role};
GRANT INSERT, UPDATE ON pgjobs_step TO {role};
GRANT SELECT (id, manifest_id, kind, name, event, digest) ON pgjobs_manifestentry TO {role};
GRANT INSERT, UPDATE, DELETE ON
    pgjobs_batch, pgjobs_job, pgjobs_predecessor, pgjobs_prerequisite, pgjobs_schedule
TO {role};
GRANT INSERT, UPDATE, DELETE ON pgjobs_auditentry TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON pgjobs_override TO {role};
GRANT UPDATE (longest) ON pgjobs_rate TO {role};
GRANT UPDATE (muted_version) ON pgjobs_errorgroup TO {role};
GRANT UPDATE (wanted) ON pgjobs_worker TO {role};
GRANT DELETE ON pgjobs_queue TO {role};
GRANT SELECT ON pgjobs_endedworker TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON pgjobs_acknowledgement TO {role};
GRANT INSERT, UPDATE ON pgjobs_event, pgjobs_queue TO {role};
GRANT INSERT ON pgjobs_attempt, pgjobs_delivery, pgjobs_note TO {role};
-- What refers to a job goes with it.
GRANT DELETE ON
    pgjobs_attempt, pgjobs_delivery, pgjobs_progress, pgjobs_step, pgjobs_tick
TO {role};
GRANT UPDATE (job_id) ON pgjobs_delivery, pgjobs_tick TO {role};
GRANT USAGE ON SEQUENCE pgjobs_job_id_seq, pgjobs_lease_token, pgjobs_turn TO {role};
{functions}

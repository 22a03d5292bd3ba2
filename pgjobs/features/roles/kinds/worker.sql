-- The workers: run jobs, look after the queue, and store what their code declares. All
-- rows are theirs, but for what operators say of queues.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON django_migrations TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON
    pgjobs_acknowledgement, pgjobs_answer, pgjobs_awaitedevent, pgjobs_wait, pgjobs_waitnote,
    pgjobs_attempt, pgjobs_auditentry, pgjobs_batch, pgjobs_codeversion, pgjobs_delivery,
    pgjobs_endedworker, pgjobs_errorgroup, pgjobs_event, pgjobs_figure, pgjobs_job,
    pgjobs_manifest, pgjobs_manifestentry, pgjobs_note, pgjobs_predecessor, pgjobs_prerequisite, pgjobs_progress, pgjobs_rate, pgjobs_schedule,
    pgjobs_step, pgjobs_subscription, pgjobs_tick, pgjobs_worker
TO {role};
GRANT SELECT, INSERT, UPDATE ON pgjobs_taskdefinition TO {role};
GRANT SELECT, UPDATE, DELETE ON pgjobs_override TO {role};
GRANT SELECT, INSERT (name) ON pgjobs_queue TO {role};
GRANT USAGE ON SEQUENCE pgjobs_job_id_seq, pgjobs_lease_token, pgjobs_turn TO {role};
GRANT SELECT, UPDATE ON SEQUENCE
    pgjobs_known_timeline, pgjobs_lease_token, pgjobs_worker_id_seq
TO {role};
{functions}

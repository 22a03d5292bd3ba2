-- Those who watch: they read how jobs are, and not what they were given or have found.
-- Of jobs on the way to another database they see how many there are.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON django_migrations TO {role};
GRANT SELECT (
    id, turn, batch_id, lease_token, enqueued_at, attempts, failures, life, priority,
    max_attempts, crashes, max_crashes, awaited, task, queue_name, status, reason, started_at,
    last_attempted_at, finished_at, run_after, expires_at, cancel_requested_at, timeout,
    process_units, worker_id, waiting_for, blocked_by_id
) ON pgjobs_job TO {role};
GRANT SELECT (
    id, job_id, life, number, worker_name, started_at, finished_at, outcome, exception_class
) ON pgjobs_attempt TO {role};
GRANT SELECT (
    id, name, aggregate_id, correlation_id, published_at, handlers
) ON pgjobs_event TO {role};
-- Of the audit trail, which person has paused a queue.
GRANT SELECT (id, at, actor, act, model, object_id) ON pgjobs_auditentry TO {role};
GRANT SELECT ON
    pgjobs_acknowledgement, pgjobs_batch, pgjobs_codeversion, pgjobs_delivery, pgjobs_endedworker, pgjobs_figure, pgjobs_manifest, pgjobs_move,
    pgjobs_predecessor, pgjobs_queue, pgjobs_taskdefinition, pgjobs_tick, pgjobs_worker
TO {role};
-- An older version gave whole tables, and the keys of jobs.
REVOKE SELECT ON
    pgjobs_note, pgjobs_prerequisite, pgjobs_rate, pgjobs_schedule, pgjobs_subscription
FROM {role};
REVOKE SELECT (keys, line) ON pgjobs_job FROM {role};
-- No arguments, and no keys that are made of them. The views that follow say what jobs
-- wait for.
GRANT SELECT (
    id, name, task, every, cron, timezone, anchor, overlap, catch_up, jitter, start_at, end_at,
    paused, orphaned, origin_at, next_run_at, last_run_at, run_count, skip_count, error
) ON pgjobs_schedule TO {role};
GRANT SELECT (id, job_id) ON pgjobs_note TO {role};
GRANT SELECT (
    id, kind, paused_at, max_running, rate_number, rate_seconds, until, changed_at, is_held
) ON pgjobs_override TO {role};
GRANT SELECT (id) ON pgjobs_step, pgjobs_answer TO {role};
GRANT SELECT (id, job_id) ON pgjobs_waitnote TO {role};
GRANT SELECT (event_id, name, cluster, transaction) ON pgjobs_awaitedevent TO {role};
GRANT SELECT (
    id, job_id, life, name, label, kind, deadline, opened_at, ended_at
) ON pgjobs_wait TO {role};
GRANT SELECT (id, job_id, finished_at, needed_until) ON pgjobs_prerequisite TO {role};
GRANT SELECT (
    id, task, event, is_ordered, queue_name, priority, max_attempts, max_crashes, timeout,
    expires_in, process_units, inactive_at, since
) ON pgjobs_subscription TO {role};
GRANT SELECT (id, manifest_id, kind, name, event, digest) ON pgjobs_manifestentry TO {role};
GRANT SELECT (id, move_id, "table") ON pgjobs_parcel TO {role};
-- How much of its block of ids the database has used.
GRANT SELECT ON SEQUENCE
    pgjobs_batch_id_seq, pgjobs_event_id_seq, pgjobs_job_id_seq, pgjobs_schedule_id_seq
TO {role};

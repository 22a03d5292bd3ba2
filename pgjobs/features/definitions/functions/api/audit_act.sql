-- Write to the audit trail an act to a job by SQL.
CREATE OR REPLACE FUNCTION pgjobs_audit_act(act text, job_id bigint, note text)
RETURNS void LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, note)
    VALUES (session_user, 'SQL', act, 'job', job_id, 1, left(coalesce(note, ''), 2000));
$$;

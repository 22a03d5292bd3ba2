-- Put a job in its line when its status or keys change. Statements only set READY or a
-- final status. If other jobs may wait for the keys of a job, it stands in the line
-- "left" from its end until an admission has seen it. A worker that records an end sees
-- to the line by itself: 'recorded'.
CREATE OR REPLACE FUNCTION pgjobs_queue_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NEW.line = 'recorded' THEN
        RETURN NEW;
    END IF;
    CASE
    WHEN NEW.finished_at IS NOT NULL THEN
        IF OLD.finished_at IS NULL THEN
            NEW.line := CASE WHEN NEW.keys IS NOT NULL THEN 'left' END;
        END IF;
    WHEN NEW.status = 'READY' THEN
        IF OLD.status = 'READY'
            -- The mark that others wait for its end changes nothing else.
            AND coalesce(OLD.keys, '{}') - 'has_successors'
                = coalesce(NEW.keys, '{}') - 'has_successors'
            AND OLD.dependencies IS NOT DISTINCT FROM NEW.dependencies
        THEN
            RETURN NEW;
        END IF;
        NEW.line := NULL;
        NEW.blocked_by_id := NULL;
        NEW.waiting_for := pgjobs_first_obstacle(NEW.keys, NEW.dependencies);
        IF NEW.waiting_for IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.line := pgjobs_first_line(NEW.keys);
        END IF;
    WHEN NEW.status = 'SCHEDULED' THEN
        IF OLD.status <> 'SCHEDULED' THEN
            NEW.line := CASE OLD.line WHEN 'unlinked' THEN 'unlinked' ELSE 'left' END;
        END IF;
    WHEN NEW.status = 'WAITING' THEN
        IF OLD.status <> 'WAITING' THEN
            NEW.line := pgjobs_first_line(NEW.keys);
        END IF;
    ELSE
        NULL;
    END CASE;
    -- It was admitted and has not started: its place is free again.
    IF OLD.status = 'READY' AND NEW.status <> 'READY' AND OLD.keys ? 'rate_key' THEN
        PERFORM pgjobs_leave_note(NULL, jsonb_build_object(
            'rate_key', OLD.keys -> 'rate_key'
        ));
    END IF;
    RETURN NEW;
END
$$;

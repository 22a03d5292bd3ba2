-- Put a job in its line when its status or keys change. Statements only set READY or a
-- final status. If other jobs may wait for the keys of a job, it stands in the line
-- "left" from its end until an admission has seen it. A worker that records an end sees
-- to the line by itself: 'recorded'. One that was to become READY waits if its task is
-- paused, unless the role may not read overrides. This is one function for all, because
-- PostgreSQL parses the condition of each trigger with each statement.
CREATE OR REPLACE FUNCTION pgjobs_queue_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NEW.line = 'recorded' THEN
        RETURN NEW;
    END IF;
    -- It has gone on since it was suspended, and is to begin once more. What is released
    -- before it began has not gone on.
    IF NEW.keys ? 'rate_aside'
        AND (NEW.keys -> 'rate_aside' -> 'attempts')::integer <> NEW.attempts
        AND (
            NEW.status = 'SCHEDULED' OR NEW.life > OLD.life
            OR NEW.failures > OLD.failures OR NEW.crashes > OLD.crashes
        )
    THEN
        NEW.keys := pgjobs_rate_again(NEW.keys);
    END IF;
    IF NEW.keys ? 'deadline' AND NEW.finished_at IS NULL THEN
        NEW.keys := pgjobs_keys_of_life(OLD, NEW);
    END IF;
    CASE
    -- What a job of a task with `chunk` has in its keys holds it up nowhere.
    WHEN num_nonnulls(
        nullif(NEW.keys - '{chunk_by,chunk_wait}'::text[], '{}'), NEW.dependencies,
        NEW.line, NEW.waiting_for
    ) = 0 THEN
        NULL;
    WHEN NEW.finished_at IS NOT NULL THEN
        IF OLD.finished_at IS NULL THEN
            NEW.line := CASE WHEN pgjobs_ends_for_others(NEW.keys) THEN 'left' END;
            IF OLD.waiting_for IN ('answer', 'event', 'jobs') THEN
                PERFORM pgjobs_forget_waits(OLD.id);
            END IF;
        END IF;
    WHEN NEW.status = 'READY' THEN
        IF OLD.status = 'READY'
            -- The mark that others wait for its end changes nothing else, nor its own.
            AND coalesce(OLD.keys, '{}') - ARRAY['has_successors', 'ends_at']
                = coalesce(NEW.keys, '{}') - ARRAY['has_successors', 'ends_at']
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
            -- No admission has anything to do for a task that waits and holds no key.
            NEW.line := CASE
                WHEN OLD.status = 'RUNNING'
                    AND pgjobs_first_obstacle(NEW.keys, NULL) IS NULL THEN 'unknown'
                ELSE pgjobs_first_line(NEW.keys)
            END;
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
    IF NEW.status = 'READY' AND OLD.status <> 'READY'
        AND has_table_privilege('pgjobs_override', 'SELECT')
    THEN
        NEW.line := pgjobs_paused_line(NEW.task, NULL);
        -- A snapshot of before may not see a pause; that of an admission does.
        IF NEW.line IS NULL
            AND current_setting('transaction_isolation') <> 'read committed'
        THEN
            NEW.line := 'arrived';
        END IF;
        IF NEW.line IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.waiting_for := 'limit';
        END IF;
    END IF;
    RETURN NEW;
END
$$;

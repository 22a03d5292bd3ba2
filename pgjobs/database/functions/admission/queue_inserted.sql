-- Make a new job SCHEDULED if it is not due, and WAITING in its first line if it has a
-- lock, limit, rate, predecessor or dependency. So the row itself says what an
-- admission must do, and the statement that inserts it needs no right, takes no lock
-- and reads no table.
--
-- This calls no other function of ours, and so needs no search path of its own. Each of
-- the two would cost a microsecond a row. That is why this repeats
-- pgjobs_first_obstacle and pgjobs_first_line. Only of jobs whose tasks wait for events
-- it stores the snapshot of the statement: STABLE, it sees that one.
CREATE OR REPLACE FUNCTION pgjobs_queue_inserted() RETURNS trigger
LANGUAGE plpgsql STABLE AS $$
DECLARE
    enqueued_in jsonb;
BEGIN
    IF coalesce(NEW.status NOT IN ('READY', 'WAITING'), true)
        OR NEW.status = 'WAITING' AND NEW.line IS NOT NULL
        OR NEW.status = 'READY' AND NEW.run_after <= statement_timestamp()
        AND num_nonnulls(NEW.keys, NEW.dependencies) = 0
    THEN
        RETURN NEW;
    END IF;
    IF NEW.keys ? 'waits_for' AND NOT NEW.keys ? 'enqueued_in' THEN
        EXECUTE pg_catalog.format('SELECT %I.pgjobs_enqueued_in()', TG_TABLE_SCHEMA)
        INTO enqueued_in;
        NEW.keys := NEW.keys || enqueued_in;
    END IF;
    IF NEW.keys ? 'deadline' AND NOT NEW.keys ?| ARRAY['ends_at', 'after', 'after_batches']
        AND coalesce(NEW.dependencies -> 'needs', '[]') = '[]'
        AND jsonb_typeof(NEW.keys -> 'deadline') = 'number'
    THEN
        NEW.keys := NEW.keys || jsonb_build_object(
            'ends_at', extract(epoch FROM greatest(NEW.run_after, statement_timestamp()))
                + (NEW.keys -> 'deadline')::numeric
        );
    END IF;
    IF NEW.keys ? 'chunk_wait' AND NEW.run_after IS NULL
        AND jsonb_typeof(NEW.keys -> 'chunk_wait') = 'number'
    THEN
        NEW.run_after := NEW.enqueued_at + make_interval(
            secs => least((NEW.keys -> 'chunk_wait')::numeric, 86400)::float8
        );
    END IF;
    IF NEW.status = 'WAITING' OR NEW.run_after > statement_timestamp()
        OR NEW.keys ?| ARRAY['batch_id', 'after', 'after_batches']
    THEN
        IF NEW.keys ? 'batch_id' THEN
            NEW.batch_id := NEW.keys ->> 'batch_id';
        END IF;
        IF NEW.status = 'WAITING' THEN
            NEW.line := 'unlinked';  -- an admission finds out what it waits for
            RETURN NEW;
        END IF;
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
            IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
                NEW.line := 'unlinked';  -- its predecessors may be gone when it is due
            END IF;
            RETURN NEW;
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
            NEW.waiting_for := 'predecessor';
            NEW.status := 'WAITING';
            NEW.line := 'unlinked';
            RETURN NEW;
        END IF;
    END IF;
    -- Most come here with one question asked: each takes time for each row.
    NEW.waiting_for := CASE
        WHEN NEW.dependencies -> 'needs' <> '[]' THEN 'dependency'
        WHEN NEW.keys ? 'lock' THEN 'lock'
        WHEN NEW.keys ? 'limit_key' THEN 'limit'
        WHEN NEW.keys ? 'rate_key' THEN 'rate'
    END;
    IF NEW.waiting_for IS NOT NULL THEN
        NEW.status := 'WAITING';
        NEW.line := 'arrived';
    END IF;
    RETURN NEW;
END
$$;

"""Chains and batches: jobs that wait for the end of others, decided at COMMIT.

Which jobs a job waits for is said in its `keys`, when it is inserted: `after` (ids of
jobs), `after_batches` (ids of batches), `needs` (success, end or failure). From this a
trigger makes the rows of pgjobs_predecessor at COMMIT. They are *open* until the job
has been told how that predecessor ended; a job with an open one is not READY. A job of
a batch has its `batch_id` in `keys`.

Who tells whom. A job that comes marks those it waits for (`has_successors` in their
`keys`), under the lock of their rows; so whoever ends one of them finds the successors
and tells them, in the same commit. Who tells a job has locked its row, so that of two
predecessors that end at the same time one sees the other's end. The end of a batch is
decided under an advisory lock, as keys are.

Nobody waits for a row or a lock. Who does not get one leaves a note for the workers
(pgjobs_unsettled). So that no COMMIT takes long, a transaction tells 1,000 jobs, and
leaves the rest to the workers as well.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# What may be asked of a predecessor that has ended ('GONE': was deleted unfinished).
OUTCOMES = (
    """
    CREATE FUNCTION pgjobs_meets(needs text, ended text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE needs
            WHEN 'end' THEN true
            WHEN 'failure' THEN ended = 'FAILED'
            ELSE ended = 'SUCCESSFUL'
        END
    $$;

    CREATE FUNCTION pgjobs_is_read_committed() RETURNS boolean
    LANGUAGE sql STABLE AS $$
        SELECT current_setting('transaction_isolation') = 'read committed'
    $$;

    -- Mark a job as one whose end others wait for. Returns how it has ended, or
    -- UNFINISHED, or NULL: somebody holds its row.
    CREATE FUNCTION pgjobs_watch(watched bigint) RETURNS text LANGUAGE plpgsql AS $$
    DECLARE
        job_status text;
        is_marked boolean;
    BEGIN
        -- Until this transaction has committed, nobody can end the job.
        SELECT status, coalesce(keys ? 'has_successors', false)
        INTO job_status, is_marked
        FROM pgjobs_job WHERE id = watched
        FOR SHARE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN CASE
                WHEN NOT EXISTS (SELECT FROM pgjobs_job WHERE id = watched) THEN 'GONE'
            END;
        END IF;
        IF job_status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED') THEN
            RETURN job_status;
        END IF;
        IF NOT is_marked THEN
            UPDATE pgjobs_job
            SET keys = coalesce(keys, '{}') || '{"has_successors": true}'
            WHERE id = (
                SELECT id FROM pgjobs_job WHERE id = watched
                FOR NO KEY UPDATE SKIP LOCKED
            );
            IF NOT FOUND THEN
                RETURN NULL;
            END IF;
        END IF;
        RETURN 'UNFINISHED';
    END
    $$;

    -- Any job of the batch with this status. (To ask for the first one would invite the
    -- planner to walk the primary key.)
    CREATE FUNCTION pgjobs_batch_has(batch bigint, wanted text) RETURNS bigint
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN id FROM pgjobs_job WHERE batch_id = batch AND status = wanted LIMIT 1;
    END
    $$;

    CREATE FUNCTION pgjobs_batch_state(batch bigint) RETURNS text
    LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT pgjobs_try_keys('batch ' || batch) THEN
            RETURN NULL;
        END IF;
        RETURN CASE
            WHEN coalesce(
                pgjobs_batch_has(batch, 'READY'),
                pgjobs_batch_has(batch, 'RUNNING'),
                pgjobs_batch_has(batch, 'WAITING'),
                pgjobs_batch_has(batch, 'SCHEDULED')
            ) IS NOT NULL THEN 'UNFINISHED'
            WHEN pgjobs_batch_has(batch, 'FAILED') IS NOT NULL THEN 'FAILED'
            WHEN pgjobs_batch_has(batch, 'CANCELLED') IS NOT NULL THEN 'CANCELLED'
            ELSE 'SUCCESSFUL'
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_note_unsettled(of_kind text, of_key bigint) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        -- A note that lies there already will do: the workers cannot take it before
        -- this transaction has committed.
        IF pgjobs_is_read_committed() THEN
            PERFORM FROM pgjobs_unsettled WHERE kind = of_kind AND key = of_key::text
            LIMIT 1 FOR SHARE SKIP LOCKED;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        INSERT INTO pgjobs_unsettled (kind, key) VALUES (of_kind, of_key);
        PERFORM pg_notify('pgjobs_unsettled', of_kind || ' ' || of_key);
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_note_unsettled(text, bigint);
    DROP FUNCTION pgjobs_batch_state(bigint);
    DROP FUNCTION pgjobs_batch_has(bigint, text);
    DROP FUNCTION pgjobs_watch(bigint);
    DROP FUNCTION pgjobs_is_read_committed();
    DROP FUNCTION pgjobs_meets(text, text);
    """,
)


# Tell the successors of a job or of a batch that it has ended. Their rows are locked.
PASS_ON = (
    """
    -- End jobs that needed something else of their predecessor.
    CREATE FUNCTION pgjobs_give_up(
        ids bigint[], of_job bigint, of_batch bigint, ended text, needs text
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        new_status text := CASE needs
            WHEN 'dependency' THEN 'FAILED' ELSE 'CANCELLED'
        END;
        -- Whose retry brings a cancelled job back.
        culprit bigint := coalesce(of_job, pgjobs_batch_has(of_batch, ended));
    BEGIN
        UPDATE pgjobs_job
        SET status = new_status,
            finished_at = clock_timestamp(),
            waiting_for = NULL,
            blocked_by_id = CASE WHEN needs <> 'failure' THEN culprit END,
            reason = format('%s: %s %s.', initcap(new_status),
                CASE
                    WHEN needs = 'failure' THEN 'no job of batch ' || of_batch
                    WHEN of_batch IS NOT NULL
                        THEN format('job %s of batch %s', culprit, of_batch)
                    WHEN needs = 'dependency' THEN 'dependency job ' || of_job
                    ELSE 'predecessor job ' || of_job
                END,
                CASE
                    WHEN needs = 'failure' OR ended = 'FAILED' THEN 'failed'
                    WHEN ended = 'CANCELLED' THEN 'was cancelled'
                    ELSE 'is gone'
                END
            )
        WHERE id = ANY (ids) AND status IN ('READY', 'SCHEDULED', 'WAITING');
    END
    $$;

    -- How many jobs this transaction may still tell.
    CREATE FUNCTION pgjobs_may_tell(told integer) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        so_far integer := coalesce(
            nullif(current_setting('pgjobs.told', true), '')::integer, 0
        ) + told;
    BEGIN
        IF told > 0 THEN
            PERFORM set_config('pgjobs.told', so_far::text, true);
        END IF;
        RETURN greatest(1000 - so_far, 0);
    END
    $$;

    CREATE FUNCTION pgjobs_has_successors(of_job bigint, of_batch bigint)
    RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        IF of_job IS NOT NULL THEN
            RETURN EXISTS (
                SELECT FROM pgjobs_predecessor AS link
                JOIN pgjobs_job AS job ON job.id = link.job_id
                WHERE link.predecessor_id = of_job AND link.is_open
            );
        END IF;
        RETURN EXISTS (
            SELECT FROM pgjobs_predecessor AS link
            JOIN pgjobs_job AS job ON job.id = link.job_id
            WHERE link.batch_id = of_batch AND link.is_open
        );
    END
    $$;

    -- The links to successors whose rows could be locked.
    CREATE FUNCTION pgjobs_lock_successors(
        of_job bigint, of_batch bigint, needed text
    ) RETURNS bigint[] LANGUAGE plpgsql AS $$
    DECLARE
        most integer := pgjobs_may_tell(0);
    BEGIN
        IF of_job IS NOT NULL THEN
            RETURN ARRAY(
                SELECT link.id FROM pgjobs_predecessor AS link
                JOIN pgjobs_job AS job ON job.id = link.job_id
                WHERE link.predecessor_id = of_job AND link.is_open
                LIMIT most
                FOR NO KEY UPDATE OF job SKIP LOCKED
            );
        END IF;
        RETURN ARRAY(
            SELECT link.id FROM pgjobs_predecessor AS link
            JOIN pgjobs_job AS job ON job.id = link.job_id
            WHERE link.batch_id = of_batch AND link.is_open
                AND link.needs = coalesce(needed, link.needs)
            LIMIT most
            FOR NO KEY UPDATE OF job SKIP LOCKED
        );
    END
    $$;

    -- `needed`: only those who need this. Returns how many were told.
    CREATE FUNCTION pgjobs_pass_on(
        of_job bigint, of_batch bigint, ended text, needed text DEFAULT NULL
    ) RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE
        links bigint[] := pgjobs_lock_successors(of_job, of_batch, needed);
        met bigint[];
        unmet record;
    BEGIN
        IF links = '{}' THEN
            RETURN 0;
        END IF;
        PERFORM pgjobs_may_tell(cardinality(links));
        FOR unmet IN
            -- Now that the rows are locked, what is open stays so.
            WITH closed AS (
                UPDATE pgjobs_predecessor AS link SET is_open = false
                WHERE id = ANY (links) AND is_open
                RETURNING job_id, needs, pgjobs_meets(needs, ended) AS is_met
            )
            SELECT is_met, needs, array_agg(job_id) AS ids FROM closed GROUP BY 1, 2
        LOOP
            IF unmet.is_met THEN
                met := met || unmet.ids;
            ELSE
                PERFORM pgjobs_give_up(
                    unmet.ids, of_job, of_batch, ended, unmet.needs
                );
            END IF;
        END LOOP;
        -- Whatever else holds them back is decided by the trigger.
        UPDATE pgjobs_job AS job
        SET status = 'READY', waiting_for = NULL, blocked_by_id = NULL
        WHERE id = ANY (met)
            AND status = 'WAITING' AND waiting_for IN ('predecessor', 'dependency')
            AND NOT EXISTS (
                SELECT FROM pgjobs_predecessor AS link
                WHERE link.job_id = job.id AND link.is_open
            );
        RETURN cardinality(links);
    END
    $$;

    -- As far as it goes; the workers do the rest.
    CREATE FUNCTION pgjobs_tell_successors(of_job bigint, ended text) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF pgjobs_is_read_committed() THEN
            PERFORM pgjobs_pass_on(of_job, NULL, ended);
            IF NOT pgjobs_has_successors(of_job, NULL) THEN
                RETURN;
            END IF;
        END IF;
        PERFORM pgjobs_note_unsettled('predecessor', of_job);
    END
    $$;

    -- NULL: somebody else decides about the batch.
    CREATE FUNCTION pgjobs_settle_batch(batch bigint) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        ended text := pgjobs_batch_state(batch);
    BEGIN
        IF ended <> 'UNFINISHED' THEN
            RETURN pgjobs_pass_on(NULL, batch, ended);
        END IF;
        IF ended = 'UNFINISHED' AND pgjobs_waits_for_failure(batch) THEN
            RETURN pgjobs_pass_on(NULL, batch, 'FAILED', 'failure');
        END IF;
        RETURN CASE WHEN ended IS NOT NULL THEN 0 END;
    END
    $$;

    -- Whether the first job of the batch has failed, and somebody has to be told.
    CREATE FUNCTION pgjobs_waits_for_failure(batch bigint) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN pgjobs_batch_has(batch, 'FAILED') IS NOT NULL AND EXISTS (
            SELECT FROM pgjobs_predecessor AS link
            JOIN pgjobs_job AS job ON job.id = link.job_id
            WHERE link.batch_id = batch AND link.is_open AND link.needs = 'failure'
        );
    END
    $$;

    -- Whether there is more to tell than was told; the batch is locked.
    CREATE FUNCTION pgjobs_batch_is_settled(batch bigint) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN CASE pgjobs_batch_state(batch)
            WHEN 'UNFINISHED' THEN NOT pgjobs_waits_for_failure(batch)
            ELSE NOT pgjobs_has_successors(NULL, batch)
        END;
    END
    $$;

    -- A job of the batch has ended.
    CREATE FUNCTION pgjobs_tell_batch(batch bigint) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT pgjobs_is_read_committed() THEN
            PERFORM pgjobs_note_unsettled('batch', batch);
            RETURN;
        END IF;
        -- If nobody waits for the batch, its jobs need not go one after the other. Who
        -- begins to wait must have the lock for himself, and so sees what they did.
        IF NOT pgjobs_has_successors(NULL, batch)
            AND pg_try_advisory_xact_lock_shared(
                x'70676a6b'::int, hashtext('batch ' || batch) & 1023
            )
            AND NOT pgjobs_has_successors(NULL, batch)
        THEN
            RETURN;
        END IF;
        IF pgjobs_settle_batch(batch) IS NULL
            OR NOT pgjobs_batch_is_settled(batch)
        THEN
            PERFORM pgjobs_note_unsettled('batch', batch);
        END IF;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_tell_batch(bigint);
    DROP FUNCTION pgjobs_batch_is_settled(bigint);
    DROP FUNCTION pgjobs_waits_for_failure(bigint);
    DROP FUNCTION pgjobs_settle_batch(bigint);
    DROP FUNCTION pgjobs_tell_successors(bigint, text);
    DROP FUNCTION pgjobs_pass_on(bigint, bigint, text, text);
    DROP FUNCTION pgjobs_lock_successors(bigint, bigint, text);
    DROP FUNCTION pgjobs_has_successors(bigint, bigint);
    DROP FUNCTION pgjobs_may_tell(integer);
    DROP FUNCTION pgjobs_give_up(bigint[], bigint, bigint, text, text);
    """,
)


# What a job waits for: from `keys` to pgjobs_predecessor.
LOOK_BACK = (
    """
    CREATE FUNCTION pgjobs_ids(keys jsonb, name text) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF jsonb_typeof(keys -> name) <> 'array' THEN
            RAISE 'keys: % must be an array of ids', name USING ERRCODE = '22023';
        END IF;
        RETURN ARRAY(
            SELECT DISTINCT element::bigint
            FROM jsonb_array_elements_text(keys -> name) AS element
        );
    END
    $$;

    -- Only what exists, and so came before, can be waited for: there are no circles.
    CREATE FUNCTION pgjobs_check_links(job pgjobs_job) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        ids bigint[] := pgjobs_ids(job.keys, 'after');
        batch_ids bigint[] := pgjobs_ids(job.keys, 'after_batches') || job.batch_id;
        missing bigint;
    BEGIN
        IF job.keys ->> 'needs' NOT IN ('success', 'end', 'failure') THEN
            RAISE 'keys: needs must be success, end or failure, got %',
                job.keys ->> 'needs' USING ERRCODE = '22023';
        END IF;
        SELECT * INTO missing FROM (
            SELECT unnest(ids)
            EXCEPT
            SELECT id FROM pgjobs_job WHERE id = ANY (ids) AND id < job.id
        ) AS other LIMIT 1;
        IF missing IS NOT NULL THEN
            RAISE 'keys: after names job %, which does not exist', missing
                USING ERRCODE = '22023',
                HINT = 'A job can wait for those that were enqueued before it.';
        END IF;
        SELECT * INTO missing FROM (
            SELECT unnest(array_remove(batch_ids, NULL))
            EXCEPT
            SELECT id FROM pgjobs_batch WHERE id = ANY (batch_ids)
        ) AS other LIMIT 1;
        IF missing IS NOT NULL THEN
            RAISE 'keys: batch % does not exist', missing USING ERRCODE = '22023';
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_link(job pgjobs_job) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        needed text := coalesce(job.keys ->> 'needs', 'success');
    BEGIN
        INSERT INTO pgjobs_predecessor (job_id, predecessor_id, batch_id, needs)
        SELECT job.id, unnest(pgjobs_ids(job.keys, 'after')), NULL, needed
        UNION ALL
        SELECT job.id, NULL, unnest(pgjobs_ids(job.keys, 'after_batches')), needed;
    END
    $$;

    -- How the predecessor has ended, as far as the link asks, or UNFINISHED. NULL:
    -- somebody else decides about it.
    CREATE FUNCTION pgjobs_outcome(link pgjobs_predecessor) RETURNS text
    LANGUAGE plpgsql AS $$
    DECLARE
        ended text;
    BEGIN
        IF NOT pgjobs_is_read_committed() THEN
            RETURN NULL;
        END IF;
        IF link.batch_id IS NULL THEN
            RETURN pgjobs_watch(link.predecessor_id);
        END IF;
        ended := pgjobs_batch_state(link.batch_id);
        IF ended = 'UNFINISHED' AND link.needs = 'failure'
            AND pgjobs_batch_has(link.batch_id, 'FAILED') IS NOT NULL
        THEN
            RETURN 'FAILED';
        END IF;
        RETURN ended;
    END
    $$;

    -- Close the links of a job to predecessors that have ended, and watch the others.
    -- False: the job has ended, because it needed something else.
    CREATE FUNCTION pgjobs_look_back(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        link pgjobs_predecessor;
        ended text;
    BEGIN
        FOR link IN
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.job_id = pgjobs_look_back.id AND each.is_open
        LOOP
            ended := pgjobs_outcome(link);
            IF ended IS NULL THEN
                PERFORM pgjobs_note_unsettled(
                    CASE WHEN link.batch_id IS NULL THEN 'predecessor' ELSE 'batch' END,
                    coalesce(link.predecessor_id, link.batch_id)
                );
            ELSIF ended <> 'UNFINISHED' THEN
                UPDATE pgjobs_predecessor AS each SET is_open = false
                WHERE each.id = link.id;
                IF NOT pgjobs_meets(link.needs, ended) THEN
                    PERFORM pgjobs_give_up(
                        ARRAY[link.job_id], link.predecessor_id, link.batch_id, ended,
                        link.needs
                    );
                    RETURN false;
                END IF;
            END IF;
        END LOOP;
        RETURN true;
    END
    $$;

    CREATE FUNCTION pgjobs_open_link(
        id bigint, OUT waiting_for text, OUT blocked_by_id bigint
    ) LANGUAGE plpgsql AS $$
    BEGIN
        SELECT CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END,
            predecessor_id
        INTO waiting_for, blocked_by_id
        FROM pgjobs_predecessor AS link
        WHERE link.job_id = pgjobs_open_link.id AND is_open
        ORDER BY needs = 'dependency', predecessor_id LIMIT 1;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_open_link(bigint);
    DROP FUNCTION pgjobs_look_back(bigint);
    DROP FUNCTION pgjobs_outcome(pgjobs_predecessor);
    DROP FUNCTION pgjobs_link(pgjobs_job);
    DROP FUNCTION pgjobs_check_links(pgjobs_job);
    DROP FUNCTION pgjobs_ids(jsonb, text);
    """,
)


# What workers call, with notes too: see `pgjobs_settle_key` for what it returns.
SETTLE = (
    """
    CREATE FUNCTION pgjobs_settle_predecessor(id bigint, OUT told integer)
    LANGUAGE plpgsql AS $$
    DECLARE
        ended text := pgjobs_watch(id);
    BEGIN
        told := CASE
            WHEN ended = 'UNFINISHED' THEN 0
            WHEN ended IS NOT NULL THEN pgjobs_pass_on(id, NULL, ended)
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_note(of_kind text, of_key text) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        -- Before the look: who leaves a note from now on is not served by it.
        notes bigint[] := ARRAY(
            SELECT id FROM pgjobs_unsettled WHERE kind = of_kind AND key = of_key
            FOR UPDATE SKIP LOCKED
        );
        told integer;
        is_done boolean;
    BEGIN
        IF of_kind = 'batch' THEN
            told := pgjobs_settle_batch(of_key::bigint);
            is_done := told IS NOT NULL AND pgjobs_batch_is_settled(of_key::bigint);
        ELSE
            told := pgjobs_settle_predecessor(of_key::bigint);
            is_done := told IS NOT NULL AND (
                pgjobs_watch(of_key::bigint) = 'UNFINISHED'
                OR NOT pgjobs_has_successors(of_key::bigint, NULL)
            );
        END IF;
        IF is_done THEN
            DELETE FROM pgjobs_unsettled WHERE id = ANY (notes);
            is_done := NOT EXISTS (
                SELECT FROM pgjobs_unsettled WHERE kind = of_kind AND key = of_key
            );
        END IF;
        IF told > 0 AND NOT is_done THEN  -- at once again, whoever hears it first
            PERFORM pg_notify('pgjobs_unsettled', of_kind || ' ' || of_key);
            RETURN told;
        END IF;
        RETURN CASE WHEN is_done THEN told END;
    END
    $$;

    CREATE FUNCTION pgjobs_settle(kind text, key text) RETURNS integer
    LANGUAGE plpgsql AS $$
    BEGIN
        IF kind IN ('predecessor', 'batch') THEN
            RETURN pgjobs_settle_note(kind, key);
        END IF;
        IF kind = 'aside' THEN
            RETURN pgjobs_come_back(key);
        END IF;
        RETURN pgjobs_settle_key(kind, key);
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_settle(text, text);
    DROP FUNCTION pgjobs_settle_note(text, text);
    DROP FUNCTION pgjobs_settle_predecessor(bigint);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0004_locks_limits_rates")]

    operations = [
        RunPostgreSQL(*each) for each in (OUTCOMES, PASS_ON, LOOK_BACK, SETTLE)
    ]

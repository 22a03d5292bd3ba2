-- Return those of these jobs whose rows something needs. The caller holds their locks.
--
-- It asks the question of sql/upkeep/prune/why_kept.sql, for jobs that have succeeded
-- without keys, dependencies, batch or unique period. VOLATILE: each statement sees what was
-- committed before it, and so after the locks. First it asks about all ids between the lowest
-- and the highest one, which costs one look-up for each table, however many jobs there are:
-- those that a worker records together stand close together, and mostly nothing needs any of
-- them. `parents`: those that have a parent.
CREATE OR REPLACE FUNCTION pgjobs_needed(ids bigint[], parents bigint[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    low CONSTANT bigint := (SELECT min(id) FROM unnest(ids) AS id);
    high CONSTANT bigint := (SELECT max(id) FROM unnest(ids) AS id);
    tables text;
    needed bigint[] := '{}';
    referred bigint[];
BEGIN
    IF parents IS NOT NULL OR high - low > 100 * cardinality(ids)
        OR EXISTS (SELECT FROM pgjobs_job WHERE line = 'unlinked')
        OR EXISTS (
            SELECT FROM pgjobs_predecessor WHERE predecessor_id BETWEEN low AND high
        )
        OR EXISTS (
            SELECT FROM pgjobs_schedule
            WHERE last_job_id IS NOT NULL AND last_job_id BETWEEN low AND high
        )
        OR EXISTS (SELECT FROM pgjobs_delivery WHERE job_id BETWEEN low AND high)
    THEN
        IF (
            SELECT count(*) > 1000
            FROM (SELECT FROM pgjobs_job WHERE line = 'unlinked' LIMIT 1001) AS some
        ) THEN
            RETURN ids;
        END IF;
        needed := ARRAY(
            SELECT predecessor_id FROM pgjobs_predecessor
            WHERE predecessor_id = ANY (ids)
            UNION ALL
            SELECT last_job_id FROM pgjobs_schedule
            WHERE last_job_id IS NOT NULL AND last_job_id = ANY (ids)
            UNION ALL
            SELECT job_id FROM pgjobs_delivery WHERE job_id = ANY (ids)
            UNION ALL
            SELECT after.id::bigint
            FROM (SELECT keys FROM pgjobs_job WHERE line = 'unlinked') AS unlinked
            CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after') AS after (id)
            UNION ALL
            -- A step of another job has enqueued it, which may yet ask for its end.
            SELECT job.id FROM pgjobs_job AS job
            WHERE job.id = ANY (parents)
                AND job.meta ->> 'parent_id' ~ '^[0-9]{1,18}$'
                AND EXISTS (
                    SELECT FROM pgjobs_job AS parent
                    WHERE parent.id = (job.meta ->> 'parent_id')::bigint
                        AND parent.finished_at IS NULL
                        AND EXISTS (
                            SELECT FROM pgjobs_step WHERE job_id = parent.id OFFSET 0
                        )
                    OFFSET 0
                )
        );
    END IF;
    -- A process waits for one of them: see queue/waiting.py. Mostly none does for any.
    IF NOT pg_try_advisory_lock(1885825633, 0) THEN
        needed := needed || ARRAY(
            SELECT id FROM unnest(ids) AS id
            WHERE (id % 2147483648)::oid IN (
                SELECT objid FROM pg_locks
                WHERE locktype = 'advisory' AND classid = 1885825635 AND objsubid = 2
            )
        );
    ELSE
        PERFORM pg_advisory_unlock(1885825633, 0);
    END IF;
    -- Tables of the project, whatever ON DELETE says: the constraint has a trigger here.
    SELECT string_agg(
        CASE
            WHEN has_table_privilege(reference.conrelid, 'SELECT') THEN format(
                'SELECT %1$I FROM %2$s WHERE %1$I = ANY ($1)',
                attribute.attname, reference.conrelid::regclass
            )
            ELSE 'SELECT unnest($1)'
        END,
        ' UNION ALL '
    )
    INTO tables
    FROM pg_catalog.pg_trigger AS made
    JOIN pg_catalog.pg_constraint AS reference ON reference.oid = made.tgconstraint
    JOIN pg_catalog.pg_attribute AS attribute
        ON attribute.attrelid = reference.conrelid
        AND attribute.attnum = reference.conkey[1]
    WHERE made.tgrelid = 'pgjobs_job'::regclass AND made.tgisinternal
        AND made.tgtype & 8 <> 0;  -- it fires for DELETE
    IF tables IS NOT NULL THEN
        EXECUTE format('SELECT ARRAY(%s)', tables) INTO referred USING ids;
        needed := needed || referred;
    END IF;
    RETURN needed;
END
$$;

-- Return those of these jobs whose rows something needs. The caller holds their locks.
--
-- It asks the question of sql/upkeep/prune/why_kept.sql, and some more, for jobs that have
-- succeeded without dependencies, batch, unique period or keys for whose end others wait.
-- VOLATILE: each statement sees what was committed before it, and so after the locks.
-- `parents`: those that have a parent.
CREATE OR REPLACE FUNCTION pgjobs_needed(ids bigint[], parents bigint[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    needed bigint[];
    referred bigint[];
    tables text;
BEGIN
    -- To look through more of them would take longer than to store the jobs.
    IF (
        SELECT count(*) > 1000
        FROM (SELECT FROM pgjobs_job WHERE line = 'unlinked' LIMIT 1001) AS named
    ) THEN
        RETURN ids;
    END IF;
    needed := ARRAY(
        SELECT predecessor_id FROM pgjobs_predecessor WHERE predecessor_id = ANY (ids)
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
        -- Another job has enqueued it, which may yet wait for its end. The step that has
        -- done so may not be stored yet.
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (parents)
            AND job.meta ->> 'parent_id' ~ '^[0-9]{1,18}$'
            AND EXISTS (
                SELECT FROM pgjobs_job AS parent
                WHERE parent.id = (job.meta ->> 'parent_id')::bigint
                    AND parent.finished_at IS NULL
                OFFSET 0
            )
        UNION ALL
        -- A process waits for it: see queue/waiting.py.
        SELECT id FROM unnest(ids) AS each (id)
        WHERE (id % 2147483648)::oid IN (
            SELECT objid FROM pg_catalog.pg_locks
            WHERE locktype = 'advisory' AND classid = '1885825635'::oid
                AND objsubid = 2
        )
    );
    -- Tables of the project, whatever ON DELETE says.
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
        AND made.tgtype::integer & 8 <> 0;  -- it fires for DELETE
    IF tables IS NOT NULL THEN
        EXECUTE format('SELECT ARRAY(%s)', tables) INTO referred USING ids;
    END IF;
    RETURN needed || referred;
END
$$;

-- Lock the first jobs of a list that no other transaction has locked; return their ids.
--
-- One after the other, because each job that is picked takes room of its queue and
-- units of the host. So a locked job takes none, and no row is locked in vain. The
-- arrays have an element for each job, in claim order. `job_queues` has the positions in
-- `rooms`, which has the room of each queue. NULL as `free_units` means that units do not
-- count. The walk ends at a job for which too few units are left: another fetch counts
-- again, and may keep them for it. It ends before a job that must run alone, unless that
-- one comes first.
CREATE OR REPLACE FUNCTION pgjobs_pick(
    ids bigint[], job_queues integer[], job_units bigint[], are_suspect boolean[],
    rooms bigint[], free_units bigint, wanted bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    picked bigint[] := '{}';
BEGIN
    FOR place IN 1 .. coalesce(pg_catalog.cardinality(ids), 0) LOOP
        EXIT WHEN pg_catalog.cardinality(picked) >= wanted;
        CONTINUE WHEN rooms[job_queues[place]] <= 0;
        EXIT WHEN job_units[place] > free_units
            OR are_suspect[place] AND picked <> '{}';
        -- See sql/worker/claim/pick.sql for this comparison with the status.
        PERFORM FROM pgjobs_job
        WHERE id = ids[place] AND status || '' = 'READY'
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        picked := picked || ids[place];
        EXIT WHEN are_suspect[place];
        rooms[job_queues[place]] := rooms[job_queues[place]] - 1;
        free_units := free_units - job_units[place];
    END LOOP;
    RETURN picked;
END
$$;

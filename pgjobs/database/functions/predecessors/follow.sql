-- Close the links that lead to those of these jobs that have ended, and to these
-- batches; leave notes of what stays to be done. `number`: of these notes. `followers`:
-- jobs that may have nothing more to wait for. `ended`: jobs that needed another
-- outcome.
CREATE OR REPLACE FUNCTION pgjobs_follow(
    ids bigint[], batches bigint[], most integer,
    OUT number integer, OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO followers, ended FROM pgjobs_close_links(ids, batches, most);
    number := pgjobs_leave_open(ids, batches);
END
$$;

-- The summary is a row of its own. Python sorts the jobs.
SELECT recorded, has_keys, next_due,
    EXISTS (SELECT FROM picked WHERE is_suspect) AS met_suspect,
    met_locked,
    -- Expired jobs are rare. Another statement cancels them.
    EXISTS (SELECT FROM listed WHERE is_expired) AS met_expired,
    -- Some jobs ahead of one that must run alone were locked by this claim: what the
    -- latter meets is for the next look to find out.
    is_cut OR number BETWEEN 1 AND %(limit)s - 1
        AND EXISTS (SELECT FROM eligible WHERE is_suspect)
        AND NOT EXISTS (SELECT FROM picked WHERE is_suspect) AS has_more,
    is_crowded,
    extract(epoch FROM ended_at - begun_at)::float8 AS seconds, ended_at, claimed.*
FROM verdict FULL JOIN claimed ON false

"""Bugs of attempts: claims, records, rescues and retries."""

from .bug import STOP, WITHOUT_THE_LAST_LINE, Bug

BUGS = [
    Bug(
        "a stale worker records its success",
        "recorded by a stale worker",
        (
            (
                """WHERE id = ANY (%(ids)s::bigint[])
                AND lease_token = (%(lease_tokens)s::bigint[])[
                    width_bucket(id, %(ids)s::bigint[])
                ]
                AND worker_id = %(worker_id)s""",
                "WHERE id = ANY (%(ids)s::bigint[]) AND worker_id IS NOT NULL",
            ),
            # Where an admission begins with what its worker has to record.
            (
                """WHERE id = ANY (ids) AND lease_token = ANY (lease_tokens)
                AND worker_id = worker""",
                "WHERE id = ANY (ids) AND worker_id IS NOT NULL",
            ),
        ),
        "long",
        STOP,
        40,
    ),
    Bug(
        "a stale worker records its failure",
        "recorded by a stale worker",
        (
            (
                """ON job.id = outcome.id AND job.lease_token = outcome.lease_token
                CROSS JOIN LATERAL""",
                "ON job.id = outcome.id CROSS JOIN LATERAL",
            ),
            (
                "WHERE job.worker_id = %(worker_id)s -- Otherwise a plan",
                "WHERE job.worker_id IS NOT NULL -- Otherwise a plan",
            ),
        ),
        "long_failing",
        STOP,
        60,
    ),
    Bug(
        "an atomic job commits although it was overtaken",
        "double effect",
        (
            (
                """WHEN NOT EXISTS (SELECT FROM completed)
                THEN pgjobs_refuse(%(overtaken)s)""",
                """WHEN NOT EXISTS (SELECT FROM completed)
                AND %(overtaken)s::text IS NULL THEN pgjobs_refuse('')""",
            ),
        ),
        "long_atomic",
        STOP,
        40,
    ),
    Bug(
        "a lease ends long before it has run out",
        "taken from a living worker",
        (
            (
                "< clock_timestamp() - (worker.lease_until - worker.heartbeat_at)",
                "< clock_timestamp() - interval '0.3 s'",
            ),
            # Where workers ask whether there is anything to rescue.
            (
                "heartbeat_at < clock_timestamp() - least( lease_until - heartbeat_at,",
                "heartbeat_at < clock_timestamp() - least( interval '0.3 s',",
            ),
        ),
        "plain,long",
    ),
    Bug(
        "a rescue counts no crash",
        "illegal transition",
        (
            (
                "least(job.crashes + counted, job.attempts, 32767),",
                "job.crashes,",
            ),
        ),
        "long",
        "kill a worker",
        20,
    ),
    Bug(
        "the crash of a call counts for each of its jobs",
        "illegal transition",
        (("WHEN halved IS NOT NULL THEN 0", "WHEN halved IS NOT NULL THEN 1"),),
        "together",
        "kill a worker",
        20,
    ),
    Bug(
        "a call takes jobs along that run elsewhere",
        "illegal transition",
        (
            (
                """AND status IN ('READY', 'SCHEDULED') AND keys ? 'chunk_by'
            AND (status = 'READY'
                OR pgjobs_first_obstacle(keys, dependencies) IS NULL)""",
                "AND status <> 'SUCCESSFUL' AND id <> leader.id AND keys ? 'chunk_by'",
            ),
        ),
        "together",
        "none",
        20,
    ),
    Bug(
        "halves of a call overlap, and run what has succeeded",
        "called twice",
        (
            (
                "left += [members[:middle], members[middle:]]",
                "left += [members[: middle + 1], members[middle:]]",
            ),
            (
                "members = [member for member in left.popleft() if member.is_open]",
                "members = left.popleft()",
            ),
        ),
        "together",
        "none",
        20,
    ),
    Bug(
        "a rescue leaves the old token",
        "illegal transition",
        (
            (
                "WHEN job.lease_token < nextval('pgjobs_lease_token') "
                "THEN currval('pgjobs_lease_token')",
                "WHEN true THEN job.lease_token",
            ),
        ),
        "long",
        "kill a worker",
        20,
    ),
    Bug(
        "a job may crash for ever",
        "illegal transition",
        (("WHEN job.crashes + counted >= job.max_crashes THEN 'FAILED'", ""),),
        "plain",
        "a job that ends its process",
        20,
    ),
    Bug(
        "the number of the attempt is the token",
        "token used twice",
        (
            (
                """WHEN lease_token < nextval('pgjobs_lease_token')
            THEN currval('pgjobs_lease_token')
        ELSE pgjobs_token_beyond(lease_token)
    END,
    worker_id = %(worker_id)s,""",
                """WHEN true THEN attempts + 1
        ELSE pgjobs_token_beyond(lease_token)
    END,
    worker_id = %(worker_id)s,""",
            ),
        ),
    ),
    Bug(
        "a retry takes the token back to 0",
        "illegal transition",
        (
            (
                "reason = '', blocked_by_id = NULL,",
                "reason = '', blocked_by_id = NULL, lease_token = 0,",
            ),
        ),
        "plain",
        "none",
        20,
    ),
    Bug(
        "a retry begins no other life",
        "double completion",
        (("life = life + 1,", ""), *WITHOUT_THE_LAST_LINE),
        "plain",
        "none",
        20,
    ),
    Bug(
        "each crash of a worker counts three times",
        "innocents failed",
        (("ELSE 1 END AS counted", "ELSE 3 END AS counted"),),
        "bystanders",
        "a job that ends its process",
        20,
    ),
    Bug(
        "the death of a worker shows after a minute",
        "rescued late",
        (
            (
                "AND rescuer.connected_since < clock_timestamp()",
                "AND rescuer.connected_since < clock_timestamp() - interval '60 s'",
            ),
            (
                "< clock_timestamp() - (worker.lease_until - worker.heartbeat_at)",
                "< clock_timestamp() - interval '60 s'",
            ),
        ),
        "plain,long",
        "kill a worker",
        30,
    ),
    Bug(
        "a worker claims one job too many",
        "slots exceeded",
        (
            (
                "min(self.options.slots - taken,",
                "min(self.options.slots - taken + 1,",
            ),
        ),
        "several",
    ),
]

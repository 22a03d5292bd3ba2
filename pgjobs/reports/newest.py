"""What a list shows of many jobs: the newest, or those that ended last.

It reads no more of the table than that, however many jobs its filters leave.
"""

from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db.models import Case, Q, When
from django.db.models.expressions import RawSQL

from ..conf import FINISHED
from ..models.job_set import JobQuerySet
from .reading import read, read_in_order, sql_of

# How many jobs, the newest, the admin reads to search texts without an index.
LOOKED_AT = 10_000
# The same for names without an index, which take less time to compare.
LOOKED_AT_BY_NAME = 100_000
# By their end, jobs lie in as many places of the table: each takes a look of its own.
LOOKED_AT_BY_END = 20_000
MOST_FOUND = 10_001  # one more than a list counts
MOST_MERGED = 100  # branches of a list
NEWEST = """
SELECT (array_agg(pk) FILTER (WHERE is_match))[:{1}], count(*)
FROM ({0}) AS looked_at (pk, is_match)
"""
# Of each branch, as much as could be needed of it. The branches are merged.
BRANCH = "({} LIMIT {})"
LAST = "SELECT * FROM ({}) AS merged (at) ORDER BY at DESC OFFSET {} LIMIT 1"


class Found(NamedTuple):
    """The jobs that match, of the newest ones that were looked at."""

    jobs: JobQuerySet
    is_cut: bool  # there are older ones


def newest(jobs: JobQuerySet, match: Q, looked_at: int, by_end: bool = False) -> Found:
    """Return those of the newest jobs that match, MOST_FOUND at most.

    They are compared where they are read. With a WHERE clause the planner, which cannot
    know how few match, would walk over the whole table to find them. `by_end`: all jobs
    have ended, and the newest are those that ended last, for which there is an index.
    """
    is_match = Case(When(match, then=True), default=False)
    order = "-finished_at" if by_end else "-pk"
    some = jobs.order_by(order).annotate(is_match=is_match)[:looked_at]
    try:
        text, parameters = sql_of(some.values_list("pk", "is_match"))
    except EmptyResultSet:  # another filter leaves none, and Django knows it
        return Found(jobs.none(), False)
    query = NEWEST.format(text, MOST_FOUND)
    ((ids, number),) = read(jobs.db, query, parameters)
    matching = RawSQL("SELECT unnest(%s::bigint[])", [ids or []])
    return Found(jobs.filter(pk__in=matching), number == looked_at)


class Branches(NamedTuple):
    """Ended jobs in branches: an index sorts the jobs of each by their end."""

    whole: Q
    branches: list[Q]


BY_STATUS = Branches(Q(status__in=FINISHED), [Q(status=status) for status in FINISHED])


def ended_last(jobs: JobQuerySet, branches: Branches, most: int) -> JobQuerySet:
    """Return those of the jobs in these branches that ended last: more than `most`.

    PostgreSQL merges the branches and stops where it has enough. To sort them, it would
    read all of them. One branch needs no cut, since an index has its order.
    """
    whole = jobs.filter(branches.whole)
    if len(branches.branches) < 2:
        return whole
    is_few = len(branches.branches) <= MOST_MERGED
    texts: list[str] = []
    values: list[Any] = []
    for branch in branches.branches if is_few else [branches.whole]:
        ends = jobs.filter(branch).order_by("-finished_at").values_list("finished_at")
        text, parameters = sql_of(ends)
        texts.append(BRANCH.format(text, most + 1))
        values += parameters
    last = LAST.format(" UNION ALL ".join(texts), most)
    rows = (read_in_order if is_few else read)(jobs.db, last, values)
    return whole.filter(finished_at__gte=rows[0][0]) if rows else whole

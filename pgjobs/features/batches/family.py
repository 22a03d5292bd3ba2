"""The tree of jobs that a job belongs to: which job enqueued which."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.fields.json import KT

from ...admin.details import Lineage
from ...admin.links import Link, link_to_job
from ...base.ids import read_id
from ...models.job import Job
from .graph import BOX, Box, Picture

MOST = 200  # jobs that are read
MOST_SHOWN = 30
DEEPEST = 8  # what lies deeper is drawn at this depth
INDENTATION = 30
LINE = BOX[1] + 8  # from the top of one box to that of the next
OF_ROOT = re.compile(r"job-([0-9]{1,19})")


class Node(NamedTuple):
    job: Job
    depth: int
    line: int  # in which it is drawn
    line_of_parent: int | None


def tree(job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the template context: the tree, unless the job is the only one in it."""
    jobs = related(job, lineage)
    nodes = list(nodes_of(job.pk, jobs)) if len(jobs) > 1 else []
    if len(nodes) < 2:
        return {}
    return {
        "tree": drawn(nodes[:MOST_SHOWN], job.pk, admin_site),
        "is_tree_cut": len(jobs) > MOST or len(nodes) > MOST_SHOWN,
        "most_in_tree": MOST_SHOWN,
    }


def related(job: Job, lineage: Lineage) -> dict[int, Job]:
    """Return the job and those with its `correlation_id`, up to MOST + 1 of them.

    The first job of a tree has none of its own: the others have one of its id.
    """
    correlation = lineage.correlation or f"job-{job.pk}"
    found = Job.objects.filter(meta__correlation_id=correlation)[: MOST + 1]
    jobs = {each.pk: each for each in with_parent(found)}
    job.parent = lineage.parent
    jobs[job.pk] = job
    first = OF_ROOT.fullmatch(correlation)
    if first and (pk := read_id(first[1])) is not None and pk not in jobs:
        jobs.update(with_parent(Job.objects.filter(pk=pk)).in_bulk())
    return jobs


def with_parent(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the jobs with the id of the job that enqueued each, as text."""
    return jobs.only("task", "status").annotate(parent=KT("meta__parent_id"))


def nodes_of(pk: int, jobs: dict[int, Job]) -> Iterator[Node]:
    """Yield the tree of a job, each job before those that it enqueued."""
    children: dict[int, list[int]] = {}
    for id in sorted(jobs):
        if (parent := parent_of(jobs[id])) is not None:
            children.setdefault(parent, []).append(id)
    waiting: list[tuple[int, int, int | None]] = [(root_of(pk, jobs), 0, None)]
    seen: set[int] = set()
    while waiting:
        id, depth, line_of_parent = waiting.pop()
        if id not in seen:
            line = len(seen)
            seen.add(id)
            yield Node(jobs[id], depth, line, line_of_parent)
            below = children.get(id, ())
            waiting.extend((each, depth + 1, line) for each in reversed(below))


def root_of(pk: int, jobs: dict[int, Job]) -> int:
    """Return the first job that is known of those that led to this one."""
    passed = {pk}
    while (parent := parent_of(jobs[pk])) in jobs and parent not in passed:
        pk = parent
        passed.add(pk)
    return pk


def parent_of(job: Job) -> int | None:
    """Return the id of the job that enqueued this one. SQL may have put anything."""
    return read_id(job.parent) if job.parent else None


def drawn(nodes: list[Node], here: int, admin_site) -> Picture:
    """Return the picture, with a box for each job."""
    jobs = {node.job.pk: node.job for node in nodes}
    return Picture(
        width=min(max(node.depth for node in nodes), DEEPEST) * INDENTATION + BOX[0],
        height=len(nodes) * LINE,
        boxes=[
            Box(link_of(node.job, jobs, here, admin_site), left(node), node.line * LINE)
            for node in nodes
        ],
        lines=list(branches(nodes)),
    )


def link_of(job: Job, jobs: dict[int, Job], here: int, admin_site) -> Link:
    link = link_to_job(job.pk, jobs, "", admin_site)
    return link._replace(url=None) if job.pk == here else link


def left(node: Node) -> int:
    return min(node.depth, DEEPEST) * INDENTATION


def branches(nodes: list[Node]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the lines, each from below a parent to the left of what it enqueued."""
    for node in nodes:
        if node.line_of_parent is not None:
            start = left(nodes[node.line_of_parent]) + INDENTATION // 2
            yield (
                *(start, node.line_of_parent * LINE + BOX[1]),
                *(node.line * LINE + BOX[1] // 2, max(left(node), start)),
            )

"""What runs before and after a job, however far, as a small picture.

And the jobs directly before and after a job or batch, as their pages list them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...admin.links import Link, jobs_of, link_to_job, page
from ...models.batch import Batch, BatchProgress
from ...models.job import Job
from ...models.predecessor import Predecessor
from ...reports.reading import read, rows_of
from ...reports.texts import excerpt
from ..results.origins import names_by_origin

MOST_LINKS = 50
MOST_NAMES = 200  # characters
NEEDS = {
    Predecessor.Needs.SUCCESS: _("needs its success"),
    Predecessor.Needs.END: _("needs its end"),
    Predecessor.Needs.FAILURE: _("needs its failure"),
    Predecessor.Needs.DEPENDENCY: _("needs its success, or the job fails"),
}
MOST = 30  # jobs on each side of the job
MOST_IN_GROUPS = 100
MOST_COUNTED = 10_000  # of a batch
COUNTS = """
SELECT batch.id, job.status, count(*)
FROM unnest(%(batches)s::bigint[]) AS batch (id)
CROSS JOIN LATERAL (
    SELECT status FROM pgjobs_job WHERE batch_id = batch.id LIMIT %(most)s
) AS job
GROUP BY batch.id, job.status
"""


def job_links(job: Job, admin_site) -> dict:
    """Return the template context: both directions, MOST_LINKS of each at most."""
    before = Predecessor.objects.filter(job_id=job.pk).order_by("pk")
    after = Predecessor.objects.filter(predecessor_id=job.pk).order_by("pk")
    earlier, later = list(before[: MOST_LINKS + 1]), list(after[: MOST_LINKS + 1])
    ids = {link.predecessor_id for link in earlier} | {link.job_id for link in later}
    jobs = jobs_of(ids)
    names = names_by_origin(job)
    return {
        "predecessors": [
            predecessor(link, jobs, names, admin_site) for link in earlier[:MOST_LINKS]
        ],
        "hidden_predecessors": len(earlier) > MOST_LINKS,
        "successors": [
            link_to_job(link.job_id, jobs, note_of(link), admin_site)
            for link in later[:MOST_LINKS]
        ],
        "hidden_successors": len(later) > MOST_LINKS,
        "most_links": MOST_LINKS,
    }


def batch_links(batch: Batch, admin_site) -> list[Link]:
    """Return the jobs that wait for the batch, its callbacks first."""
    rows = Predecessor.objects.filter(batch_id=batch.pk).order_by("pk")[:MOST_LINKS]
    links = list(rows)
    jobs = jobs_of(link.job_id for link in links)
    return [link_to_job(link.job_id, jobs, note_of(link), admin_site) for link in links]


def note_of(link: Predecessor) -> str:
    return str(NEEDS[Predecessor.Needs(link.needs)])


def predecessor(
    link: Predecessor,
    jobs: dict[int, Job],
    names: dict[tuple[str, int], list[str]],
    admin_site,
) -> Link:
    """Return the link, with the arguments that are its results."""
    if link.predecessor_id is not None:
        note = with_arguments(link, names.get(("job", link.predecessor_id), []))
        return link_to_job(link.predecessor_id, jobs, note, admin_site)
    note = with_arguments(link, names.get(("batch", link.batch_id or 0), []))
    return link_to_batch(link.batch_id, note, admin_site)


def with_arguments(link: Predecessor, names: list[str]) -> str:
    if not names:
        return note_of(link)
    listed = excerpt(", ".join(map(str, names)), MOST_NAMES)
    return gettext("%(needs)s; gives the argument %(names)s") % {
        "needs": note_of(link),
        "names": listed,
    }


def link_to_batch(id: int | None, note: str, admin_site) -> Link:
    name = gettext("batch %(id)s") % {"id": id}
    return Link(page("batch", id, admin_site), name, "", "", note)


class Node(NamedTuple):
    """A job, or a batch that jobs wait for."""

    id: int
    is_batch: bool = False


class Chain(NamedTuple):
    """`columns`: those left of 0, where the job is, hold what runs before it."""

    columns: dict[Node, int]
    links: list[tuple[Node, Node]]  # from what runs earlier to what runs later
    is_cut: bool  # there are more jobs


def chain_of(database: str, id: int) -> Chain:
    rows = rows_of(database, "chain", {"id": id, "most": MOST + 1})
    links = [
        (Node(batch, True) if predecessor is None else Node(predecessor), Node(job))
        for job, predecessor, batch in rows
    ]
    before = placed(Node(id), [(late, early) for early, late in links])
    after = placed(Node(id), links)
    columns = {node: -far for node, far in before.items()} | after
    jobs = sum(not node.is_batch for node in columns)
    shown = [(one, two) for one, two in links if columns.keys() >= {one, two}]
    return Chain(columns, shown, jobs > MOST)


def placed(start: Node, links: list[tuple[Node, Node]]) -> dict[Node, int]:
    """Return what the links lead to, each with the length of the longest way there.

    So a link always leads to another column. SQL may have stored a circle: as many
    rounds as there are links end it.
    """
    far = {start: 0}
    for _round in links:
        longer = {
            two: far[one] + 1
            for one, two in links
            if one in far and far[one] + 1 > far.get(two, 0) and two != start
        }
        if not longer:
            break
        far |= longer
    return far


MOST_IN_COLUMN = 10
BOX = (200, 28)  # width and height
GAP = (60, 10)
STEP = (BOX[0] + GAP[0], BOX[1] + GAP[1])
LONGEST = 26  # characters of a name
IN_BAR = ("successful", "failed", "cancelled", "running")

Corner = tuple[int, int]


class Box(NamedTuple):
    link: Link
    x: int
    y: int
    counts: BatchProgress | None = None  # of a batch

    @property
    def name(self) -> str:
        """The name, of which the id and the end tell most."""
        task, mark, id = self.link.name.rpartition(" #")
        if not mark:
            return excerpt(self.link.name, LONGEST)
        room = LONGEST - len(mark) - len(id)
        own = task.rpartition(".")[2]
        return f"{excerpt(task if len(task) <= room else own, room)}{mark}{id}"

    @property
    def parts(self) -> Iterator[tuple[str, int, int]]:
        """Yield the bar of a batch: each status, where it begins and how wide it is."""
        if self.counts is None or not self.counts.total:
            return
        start = self.x + 2
        for status in IN_BAR:
            number = getattr(self.counts, status)
            if width := number * (BOX[0] - 4) // self.counts.total:
                yield status, start, width
                start += width


class Picture(NamedTuple):
    """What `graph.html` draws."""

    width: int
    height: int
    boxes: list[Box]
    lines: list[tuple[int, int, int, int]]  # from one point to another


def graph(job: Job, admin_site) -> dict:
    """Return the template context: the picture, and whether there are more jobs.

    The lists beside the picture say in words what comes right before and after the job.
    """
    chain = chain_of(Job.objects.db, job.pk)
    corners = dict(corners_of(chain))
    if len(corners) < 2:
        return {}
    jobs = jobs_of(node.id for node in corners if not node.is_batch)
    batches = [node.id for node in corners if node.is_batch]
    counts = counts_of(batches) if batches else {}
    picture = Picture(
        width=max(x for x, _ in corners.values()) + BOX[0],
        height=max(y for _, y in corners.values()) + BOX[1],
        boxes=[
            Box(
                link_of(node, job, jobs, admin_site),
                *corner,
                counts.get(node.id) if node.is_batch else None,
            )
            for node, corner in corners.items()
        ],
        lines=list(lines(chain, corners)),
    )
    is_cut = chain.is_cut or len(corners) < len(chain.columns)
    groups = list(groups_of(counts, admin_site))
    return {"graph": picture, "is_graph_cut": is_cut, "groups": groups}


def numbers_of(progress: BatchProgress) -> str:
    text = gettext("%(finished)s of %(total)s")
    more = "+" if progress.total == MOST_COUNTED else ""
    return text % {"finished": progress.finished, "total": f"{progress.total:,}{more}"}


class Group(NamedTuple):
    """A batch of a chain, with the first of its jobs."""

    name: str
    finished: str  # as attributes of an HTML element
    total: str
    numbers: str
    links: list[Link]
    has_more: bool
    most: int


def counts_of(batches: list[int]) -> dict[int, BatchProgress]:
    """Return the numbers of jobs by status: of a batch, MOST_COUNTED at most."""
    rows = read(Job.objects.db, COUNTS, {"batches": batches, "most": MOST_COUNTED})
    counts: dict[int, dict[str, int]] = {id: {} for id in batches}
    for id, status, number in rows:
        counts[id][status.lower()] = number
    return {id: BatchProgress(**each) for id, each in counts.items()}


def groups_of(counts: dict[int, BatchProgress], admin_site) -> Iterator[Group]:
    """Yield the batches, whose jobs one statement reads, MOST_IN_GROUPS in all."""
    if not counts:
        return
    rows = Job.objects.filter(batch__in=counts).order_by("batch", "pk")
    rows = list(rows.only("task", "status", "batch")[:MOST_IN_GROUPS])
    for id, progress in sorted(counts.items()):
        jobs = {job.pk: job for job in rows if job.batch_id == id}
        yield Group(
            gettext("Batch %(name)s") % {"name": f"#{id}"},
            str(progress.finished),
            str(progress.total or 1),
            numbers_of(progress),
            [link_to_job(pk, jobs, "", admin_site) for pk in jobs],
            len(jobs) < progress.total,
            len(jobs),
        )


def corners_of(chain: Chain) -> Iterator[tuple[Node, Corner]]:
    """Yield where each box begins: each column is in the middle of the height."""
    columns: dict[int, list[Node]] = {}
    for node in sorted(chain.columns):
        columns.setdefault(chain.columns[node], []).append(node)
    shown = {column: nodes[:MOST_IN_COLUMN] for column, nodes in columns.items()}
    rows = max(map(len, shown.values()))
    for column, nodes in shown.items():
        top = (rows - len(nodes)) * STEP[1] // 2
        for line, node in enumerate(nodes):
            yield node, ((column - min(shown)) * STEP[0], top + line * STEP[1])


def lines(
    chain: Chain, corners: dict[Node, Corner]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each line begins and ends, between two boxes."""
    for one, two in chain.links:
        if one in corners and two in corners:
            (x, y), (x2, y2) = corners[one], corners[two]
            yield x + BOX[0], y + BOX[1] // 2, x2, y2 + BOX[1] // 2


def link_of(node: Node, here: Job, jobs: dict[int, Job], admin_site) -> Link:
    if node.is_batch:
        return link_to_batch(node.id, "", admin_site)
    link = link_to_job(node.id, jobs, "", admin_site)
    return link._replace(url=None) if node.id == here.pk else link

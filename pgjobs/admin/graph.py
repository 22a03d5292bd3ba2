"""What runs before and after a job, as a small picture."""

from collections.abc import Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..models import Job
from ..reports.chain import Chain, Node, chain_of
from ..reports.texts import excerpt
from .links import Link, jobs_of, link_to_batch, link_to_job

MOST_IN_COLUMN = 10
BOX = (200, 28)  # width and height
GAP = (60, 10)
STEP = (BOX[0] + GAP[0], BOX[1] + GAP[1])
LONGEST = 26  # characters of a name

Corner = tuple[int, int]


def graph(job: Job, admin_site) -> dict:
    """Return the template context: the picture, and whether there are more jobs.

    The lists beside the picture say in words what comes right before and after the job.
    """
    chain = chain_of(Job.objects.db, job.pk)
    corners = dict(corners_of(chain))
    if len(corners) < 2:
        return {}
    width = max(x for x, _ in corners.values()) + BOX[0]
    height = max(y for _, y in corners.values()) + BOX[1]
    picture = format_html(
        '<svg class="pgjobs-graph" width="{}" height="{}" role="group" aria-label="{}">'
        "{}{}</svg>",
        *(width, height, _("Jobs before and after this one")),
        lines(chain, corners),
        boxes(job, corners, admin_site),
    )
    is_cut = chain.is_cut or len(corners) < len(chain.columns)
    return {"graph": picture, "is_graph_cut": is_cut}


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


def lines(chain: Chain, corners: dict[Node, Corner]) -> SafeString:
    ends = [
        (corners[one], corners[two])
        for one, two in chain.links
        if one in corners and two in corners
    ]
    return format_html_join(
        "",
        '<line x1="{}" y1="{}" x2="{}" y2="{}"></line>',
        (
            (one[0] + BOX[0], one[1] + BOX[1] // 2, two[0], two[1] + BOX[1] // 2)
            for one, two in ends
        ),
    )


def boxes(job: Job, corners: dict[Node, Corner], admin_site) -> SafeString:
    jobs = jobs_of(node.id for node in corners if not node.is_batch)
    drawn = (
        (box(link_of(node, job, jobs, admin_site), x, y),)
        for node, (x, y) in corners.items()
    )
    return format_html_join("", "{}", drawn)


def link_of(node: Node, here: Job, jobs: dict[int, Job], admin_site) -> Link:
    if node.is_batch:
        return link_to_batch(node.id, "", admin_site)
    link = link_to_job(node.id, jobs, "", admin_site)
    return link._replace(url=None) if node.id == here.pk else link


def box(link: Link, x: int, y: int) -> SafeString:
    name = excerpt(link.name, LONGEST)
    drawn = format_html(
        '<title>{} {}</title><rect class="pgjobs-node-{}" x="{}" y="{}" width="{}" '
        'height="{}"></rect><text x="{}" y="{}">{}</text>',
        *(link.name, link.status_word, link.status or "gone"),
        *(x + 1, y + 1, BOX[0] - 2, BOX[1] - 2, x + 10, y + 18, name),
    )
    if link.url is None:
        return format_html("<g>{}</g>", drawn)
    return format_html('<a href="{}">{}</a>', link.url, drawn)

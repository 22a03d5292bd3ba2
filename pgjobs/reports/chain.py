"""The chain that a job belongs to: what runs before it and after it, however far."""

from typing import NamedTuple

from .reading import rows_of

MOST = 30  # jobs on each side of the job


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
    for _ in links:
        longer = {
            two: far[one] + 1
            for one, two in links
            if one in far and far[one] + 1 > far.get(two, 0) and two != start
        }
        if not longer:
            break
        far |= longer
    return far

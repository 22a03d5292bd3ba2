"""The house stays in order: what `python -m tests.house` prints keeps its bounds."""

import ast

import pytest

from tests import house
from tests.house import CALLS, CAN_TRACE, FETCHING, FUNCTIONS, MODULES, STILL_ABOVE
from tests.processes import shared_queue

FIGURES = house.lasting()
traced = pytest.mark.skipif(not CAN_TRACE, reason="sys.monitoring needs Python 3.12")


def bound(goal: house.Goal) -> int:
    return STILL_ABOVE.get(goal, goal.bound)


@pytest.mark.parametrize("goal", FIGURES, ids=lambda goal: goal.figure)
def test_figure_keeps_its_bound(goal):
    assert FIGURES[goal] <= bound(goal)


@pytest.mark.parametrize("goal", STILL_ABOVE, ids=lambda goal: goal.figure)
def test_what_is_still_above_its_bound_is_known_exactly(goal):
    assert STILL_ABOVE[goal] > goal.bound
    assert FIGURES.get(goal, STILL_ABOVE[goal]) == STILL_ABOVE[goal]


@traced
@pytest.mark.listening
@shared_queue
def test_warm_plain_job_keeps_its_bounds():
    from tests.traced_job import trace_job

    figures = house.of_trace(trace_job())
    assert {g: n for g, n in figures.items() if n > bound(g)} == {}
    assert list(figures) == [MODULES, FUNCTIONS, CALLS]


@traced
@pytest.mark.listening
@shared_queue
@pytest.mark.parametrize("options", [{}, {"prefetch": 8}, {"units": 4}], ids=str)
def test_list_names_all_that_the_claimer_reaches_before_a_fetch(options):
    from tests.traced_job import trace_jobs

    traces = [each.before_fetch for each in trace_jobs(**options)]
    # Some sweep with their fetch, by chance.
    plain = [reached for reached in traces if "queue/admitting.py" not in reached]
    reached = {module for each in plain for module in each}
    assert reached - {*FETCHING, "conf.py", "worker/slots/executor.py"} == set()
    assert plain


def test_modules_of_the_list_are_there():
    assert [name for name in FETCHING if not (house.ROOT / name).exists()] == []


# The readers are not blind


def test_fields_are_those_assigned_outside_of_init():
    tree = ast.parse(
        "class A:\n"
        "    def __init__(self):\n"
        "        self.a = self.b = 0\n"
        "    def f(self):\n"
        "        self.b, other.c = 1, 2\n"
        "        self.d += 1\n"
        "        print(self.e)\n"
    )
    assert sorted(house.changing(tree)) == ["b", "c", "d"]


def test_dict_or_object_counts_by_its_parts(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        "class A:\n"
        "    def __init__(self):\n"
        "        self.a: Fetch | None = None\n"
        "        self.b = {'x': 1, 'y': 2, 'z': 3}\n"
        "        self.c = 0\n"
    )
    fields = len(set(house.fields_of(class_of("queue/claiming.py", "Fetch"))))
    assert fields > 1
    assert [house.parts_of(path, name) for name in "abc"] == [fields, 3, 1]


def class_of(module: str, name: str) -> ast.ClassDef:
    (found,) = (
        node
        for node in house.tree_of(house.ROOT / module).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return found


def test_constants_are_names_and_numbers():
    tree = ast.parse("from a import LIMIT\nPAUSE = 2 * 3\nx = PAUSE * 0.5 + 1 - 0\n")
    assert [*house.named(tree), *house.imported(tree)] == ["PAUSE", "LIMIT"]
    assert list(house.numbers_in(tree)) == ["0.5"]


def test_numbers_of_a_statement_are_no_part_of_names_comments_or_texts():
    code = house.NOT_CODE.sub("", "SELECT a2, '3', 4 + 1.5 -- 6\nFROM t WHERE %(b7)s")
    assert house.NUMBER.findall(code) == ["4", "1.5"]

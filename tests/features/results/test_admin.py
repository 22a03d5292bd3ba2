"""The page of a job says whose results its arguments are."""

import pytest

from pgjobs import chain, enqueue, group, result, results
from pgjobs.models import Job
from tests.actors import Hand, admit, execute
from tests.operators import operator, page_of, text_of
from tests.processes import drain
from tests.tasks import add, echo, pair

pytestmark = pytest.mark.django_db(transaction=True)


def page(job: Job) -> str:
    response = operator("view_job", "view_job_arguments").get(page_of(job))
    return " ".join(text_of(response).split())


@pytest.mark.parametrize("is_done", [False, True])
def test_page_shows_where_an_argument_comes_from(is_done):
    _, last = enqueue(chain(add.bind(1, 2), pair.bind(result, result)))
    if is_done:
        drain()
    else:
        Hand()
        admit()
    text = page(last)
    assert "needs its success; gives the argument first, second" in text
    assert "is_one" not in text


def test_page_shows_the_group_whose_results_it_gets():
    _, last = enqueue(chain(group([add.bind(1, 2)]), echo.bind(results)))
    Hand()
    admit()
    assert "needs its success; gives the argument value" in page(last)


@pytest.mark.parametrize("stored", ["5", "[]", '{"a": 5}', '{"a": {"jobs": 5}}'])
def test_page_bears_whatever_sql_has_stored(stored):
    _, last = enqueue(chain(add.bind(1, 2), pair.bind(result)))
    Hand()
    admit()
    execute(
        "UPDATE pgjobs_job SET keys = keys - 'results' || jsonb_build_object("
        "'results_taken', %(stored)s::jsonb) WHERE id = %(id)s",
        {"stored": stored, "id": last.pk},
    )
    assert "needs its success" in page(last)

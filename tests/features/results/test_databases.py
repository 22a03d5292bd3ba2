"""Results in a project with two databases: they stay within one."""

import pytest

from pgjobs import chain, enqueue, group, result, results
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests.databases.test_choice import both, both_committing, counts
from tests.features.results.test_masks import SECRET, gives  # noqa: F401
from tests.processes import drain
from tests.support.second_database import two_databases  # noqa: F401
from tests.tasks import add, echo, pair, total


def there(*arguments):
    return add.using(database="eu").bind(*arguments)


def results_of_both() -> None:
    here, far = enqueue(add, 1, 2), enqueue(there(1, 2))
    after = {"here": here, "far": far}
    enqueue(pair.using(after=after).bind(result.here, result.far))


@both
@pytest.mark.parametrize(
    ("cross", "fault"),
    [
        (lambda: enqueue(chain(there(1), add.bind(result))), "'default' and 'eu'"),
        (
            lambda: enqueue(chain(group([there(1)]), total.bind(results))),
            "must be in one database, got 'default' and 'eu'",
        ),
        (results_of_both, "A job waits only for jobs of its own database"),
        (
            lambda: echo.using(after=enqueue(there(1)), database="default").enqueue(
                result
            ),
            "is in the database 'eu', and the job belongs in 'default'",
        ),
        (lambda: enqueue(add.bind(enqueued_there().result)), "no job runs before"),
    ],
)
def test_result_of_another_database_is_refused(cross, fault):
    with pytest.raises(InvalidTask) as refused:
        cross()
    assert fault in str(refused.value)
    assert not Job.objects.filter(keys__has_key="results").exists()
    assert not Job.objects.using("eu").filter(keys__has_key="results").exists()


def enqueued_there():
    bound = there(1)
    enqueue(bound)
    return bound


@both
def test_kit_passes_results_on_in_the_second_database():
    first = enqueue(there(1, 2))
    last = echo.using(after=first).enqueue(result)
    assert last._state.db == "eu"
    run_jobs(database="eu")
    last.refresh_from_db()
    assert last.return_value == 3


@both_committing
def test_worker_passes_results_on_in_the_second_database(gives):  # noqa: F811
    members = group([there(1), chain(there(2), there(result))])
    _, last = enqueue(chain(members, total.using(database="eu").bind(results)))
    far = gives.using(database="eu")
    _, masked = enqueue(chain(far.bind(), echo.using(database="eu").bind(result)))
    drain(database="eu")
    for job in (last, masked):
        assert job._state.db == "eu"
        job.refresh_from_db()
    assert last.return_value == 2 + 4
    assert masked.kwargs == {"value": SECRET}
    assert masked.keys["masked"] == ["value"]
    assert counts()[0] == 0

"""What placeholders may stand for: everything else is refused before it is written."""

import pickle

import pytest

from pgjobs import chain, enqueue, enqueue_many, group, outcomes, result, results
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.models import Batch, Job
from pgjobs.testing import perform
from tests.features.chunks.tasks import by_tenant
from tests.processes import shared_queue
from tests.support.dependent_tasks import use
from tests.tasks import add, echo, fail_with, noop, pair, total

pytestmark = shared_queue


@pytest.fixture(autouse=True)
def nothing_is_written(db):
    yield
    assert not Job.objects.exists()
    assert not Batch.objects.exists()


@pytest.mark.parametrize(
    "use",
    [
        iter,
        len,
        bool,
        str,
        int,
        "{}".format,
        lambda value: f"{value}",
        lambda value: value + 1,
        lambda value: 1 + value,
        lambda value: value == 1,
        lambda value: value < 1,
        lambda value: 1 in value,
        lambda value: value(),
        lambda value: value[1:2],
        lambda value: value[None],
        lambda value: value["a"].b,
        lambda value: setattr(value, "a", 1),
    ],
)
def test_placeholder_can_do_nothing_but_be_passed_on(use):
    with pytest.raises(TypeError, match="result"):
        use(result)


def test_placeholder_shows_what_it_stands_for():
    assert repr(result.user["items"][0]) == "result.user['items'][0]"
    assert repr(results) == "results"
    assert repr(noop.bind().result["a"]) == "<BoundTask tests.noop>.result['a']"
    assert repr(pickle.loads(pickle.dumps(result.a["b"]))) == "result.a['b']"


def test_groups_results_have_no_keys():
    with pytest.raises(TypeError, match="gets all of them"):
        results["a"]


once = add.using(unique=True, on_conflict="skip")
BEHIND = "no job runs before it. Put it behind a job in a chain"


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: add.enqueue(result), BEHIND),
        (lambda: enqueue(add, result), BEHIND),
        (lambda: enqueue(add.bind(result)), BEHIND),
        (lambda: enqueue_many([add.bind(result)]), BEHIND),
        (lambda: enqueue(chain(add.bind(result), noop.bind())), BEHIND),
        (lambda: enqueue(group([add.bind(result)])), BEHIND),
        (
            lambda: enqueue(chain(group([noop.bind()]), add.bind(result))),
            "tests.add: a=result stands after a group, which has several: say results",
        ),
        (
            lambda: enqueue(group([noop.bind()], then=add.bind(result))),
            "stands after a group",
        ),
        (
            lambda: enqueue(chain(noop.bind(), total.bind(results))),
            "stands for one job: say result",
        ),
        (
            lambda: enqueue(group([noop.bind()], on_failure=echo.bind(results))),
            "on_failure runs before the jobs of its group have ended. It takes "
            "outcomes",
        ),
        (
            lambda: enqueue(chain(once.bind(1), add.bind(result))),
            "may stand for nothing: the job is skipped",
        ),
        (
            lambda: enqueue(chain(noop.bind(), add.bind(result.user))),
            "names no job: after has no names",
        ),
        (
            lambda: enqueue(chain(noop.bind(), add.bind(add.bind(1).result))),
            "does not run before this job",
        ),
    ],
)
def test_placeholder_for_nothing_is_refused_with_the_cure(make, fault):
    with pytest.raises(InvalidTask) as refused:
        make()
    assert fault in str(refused.value)
    assert "tests." in str(refused.value)


def test_result_of_what_stands_there_twice_is_refused():
    twice = add.bind(1)
    with pytest.raises(InvalidTask, match="stands there twice"):
        enqueue(chain(twice, twice, add.bind(twice.result)))


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: echo.bind([result]), "value: "),
        (lambda: echo.bind({"a": result}), "value: "),
        (lambda: total.bind([1, result]), "numbers: "),
        (
            lambda: add.using(after_failure="run").bind(result),
            "a: result is None if the job before fails, because of "
            "after_failure='run'. Let the type hint allow None",
        ),
        (
            lambda: add.using(unique=True).bind(result),
            "a: cannot be result: the job's unique key is made of it",
        ),
        (
            lambda: add.using(unique_key="k", on_conflict="replace").bind(result),
            "a: cannot be result: on_conflict='replace' gives a job that waits other "
            "arguments, and leaves the jobs before it. Say on_conflict='return'",
        ),
        (lambda: add.using(unique=("a",)).bind(result), "unique key"),
        (lambda: add.using(unique_key="key-{a}").bind(result), "unique_key"),
        (lambda: add.using(lock="lock-{a}").bind(result), "lock"),
        (lambda: add.using(lock=lambda a, b: "x").bind(1, result), "lock"),
        (
            lambda: add.using(max_running=1, limit_key="{b}").bind(1, result),
            "limit_key",
        ),
        (lambda: add.using(rate="1/hour", rate_key="{b}").bind(1, result), "rate_key"),
        (lambda: add.using(unique_key=lambda a, b: "x").bind(1, result), "unique_key"),
        (
            lambda: use.bind("path", result),
            "number: cannot be result: the job's key of",
        ),
        (lambda: use.bind(result), "path: cannot be result: the job's key of its dep"),
        (
            lambda: by_tenant.bind(path="p", pk=1, tenant=result),
            "tenant: cannot be result: the job's chunk_by is made of it",
        ),
        (lambda: add.bind(result, "text"), "b: "),
        (lambda: add.bind(result, 1, 2), "arguments: "),
    ],
)
def test_argument_that_cannot_come_later_is_refused_at_bind(make, fault):
    with pytest.raises(InvalidArguments) as refused:
        make()
    assert fault in str(refused.value)


def test_key_of_other_arguments_is_no_obstacle():
    bound = add.using(unique=("b",), lock="lock-{b}").bind(result, 1)
    assert bound.made.keys["lock"] == "lock-1"
    optional = pair.using(after_failure="run").bind(result)
    assert set(optional.later) == {"first"}


@pytest.mark.parametrize("name", ["_secret", "a b", "class", 5, ""])
def test_name_that_no_placeholder_can_have_is_refused(name):
    with pytest.raises(InvalidTask, match="must be one that"):
        noop.using(after={name: None})


def test_performed_job_takes_values():
    with pytest.raises(InvalidTask, match="give it the value in place of result"):
        perform(add.bind(result))


def test_bound_arguments_are_not_given_twice():
    with pytest.raises(InvalidTask, match="were given to bind"):
        enqueue(fail_with.bind("no"), "again")


def test_name_of_another_job_is_refused():
    job = Job(pk=5)
    with pytest.raises(InvalidTask, match="after has cart, user"):
        enqueue(pair.using(after={"user": job, "cart": job}).bind(outcomes.usr))

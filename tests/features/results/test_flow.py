"""Results along chains and graphs: a job gets what jobs before it have returned."""

from asgiref.sync import async_to_sync

from pgjobs import (
    aenqueue,
    chain,
    current_job,
    enqueue,
    group,
    outcomes,
    result,
    results,
    task,
)
from pgjobs.features.results.placeholders import Outcome
from pgjobs.models import Job
from tests.processes import drain, shared_queue
from tests.tasks import add, echo, fail_with, pair, total

pytestmark = shared_queue


def returned(job: Job):
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL", (job.status, job.reason)
    return job.return_value


# Chains


def test_job_of_a_chain_gets_what_the_one_before_returned():
    *_, last = enqueue(chain(add.bind(1, 2), add.bind(result, b=10), echo.bind(result)))
    drain()
    assert returned(last) == 13


def test_part_of_a_result_is_found_by_its_keys():
    value = {"pages": [{"name": "one"}, {"name": "two"}]}
    _, last = enqueue(chain(echo.bind(value), echo.bind(result["pages"][1]["name"])))
    drain()
    assert returned(last) == "two"


def test_result_of_nothing_is_none():
    _, last = enqueue(chain(echo.bind(None), pair.bind(result, 5)))
    drain()
    assert returned(last) == [None, 5]


def test_values_are_stored_among_the_arguments_and_the_names_go():
    _, last = enqueue(chain(add.bind(1, 2), add.bind(result)))
    last.refresh_from_db()
    assert last.kwargs == {"b": 1}
    assert set(last.keys["results"]) == {"a"}
    drain()
    assert returned(last) == 4
    assert last.kwargs == {"a": 3, "b": 1}
    assert "results" not in last.keys
    assert set(last.keys["results_taken"]) == {"a"}


def test_argument_among_more_arguments_may_be_a_result():
    _, last = enqueue(chain(add.bind(1, 2), pair.bind(1, third=result)))
    drain()
    assert returned(last) == [1, None, 3]


def test_coroutine_gets_results_too():
    coroutine = task(name="tests.results.coroutine")(acts)
    _, last = enqueue(chain(add.bind(1, 2), coroutine.bind(result)))
    drain()
    assert returned(last) == 6


async def acts(number: int) -> int:
    return 2 * number


def test_job_names_the_result_of_any_job_before_it():
    first = add.bind(1, 2)
    *_, last = enqueue(chain(first, echo.bind(0), pair.bind(first.result, result)))
    drain()
    assert returned(last) == [3, 0]


# Groups


def test_job_after_a_group_gets_the_results_in_its_order():
    parts = [
        add.bind(1, 0),
        chain(add.bind(1, 0), add.bind(result, 1)),
        group([add.bind(3, 0), add.bind(4, 0)]),
    ]
    _, last = enqueue(chain(group(parts), echo.bind(results)))
    drain()
    assert returned(last) == [1, 2, 3, 4]


def test_results_of_a_group_without_chains_have_its_order():
    members = [add.bind(number, 0) for number in range(9)]
    _, last = enqueue(chain(group(members), total.bind(results)))
    _, echoed = enqueue(chain(group(members), echo.bind(results)))
    drain()
    assert returned(last) == 36
    assert returned(echoed) == [*range(9)]


def test_job_that_holds_the_unique_key_counts_as_the_member():
    once = add.using(unique=True)
    held = once.enqueue(8, 0)
    members = group([once.bind(number, 0) for number in (9, 8, 7)])
    _, last = enqueue(chain(members, echo.bind(results)))
    drain()
    assert returned(last) == [9, 8, 7]
    assert returned(held) == 8


def test_member_that_is_replaced_keeps_its_place():
    """In its own group, and in that whose member has replaced it."""
    once = add.using(unique_key="one", on_conflict="replace")
    parts = [once.bind(1, 0), add.bind(2, 0)]
    _, first = enqueue(chain(group(parts), echo.bind(results)))
    parts = [add.bind(3, 0), add.bind(4, 0), once.bind(5, 0)]
    _, second = enqueue(chain(group(parts), echo.bind(results)))
    once.enqueue(6, 0)
    drain()
    assert returned(first) == [6, 2]
    assert returned(second) == [3, 4, 6]


def test_job_that_is_replaced_gets_the_values_that_it_was_given():
    source = enqueue(echo, 5)
    once = echo.using(unique_key="one")
    held = once.using(after=source).enqueue(result)
    assert once.using(on_conflict="replace").enqueue("plain") == held
    drain()
    assert returned(held) == "plain"
    assert "results" not in held.keys


def test_members_that_join_later_come_last():
    batch, last = enqueue(
        chain(
            group([add.bind(1, 0), chain(echo.bind(0), add.bind(2, 0))]),
            echo.bind(results),
        )
    )
    add.using(batch=batch).enqueue(5, 0)
    drain()
    assert returned(last) == [1, 2, 5]


def test_then_gets_the_outcomes_and_none_for_failures():
    told = enqueue(
        group(
            [echo.bind("one"), fail_with.bind("no")],
            then=pair.bind(results, outcomes),
        )
    )
    drain()
    last = Job.objects.get(task="tests.pair")
    values, ends = returned(last)
    assert values == ["one", None]
    assert [end["status"] for end in ends] == ["SUCCESSFUL", "FAILED"]
    assert [end["value"] for end in ends] == ["one", None]
    assert [end["reason"] for end in ends] == ["", "ValueError: no"]
    assert told.progress().total == 2


def test_on_failure_gets_the_outcomes_of_its_moment():
    enqueue(group([fail_with.bind("no")], on_failure=echo.bind(outcomes)))
    drain()
    (end,) = returned(Job.objects.get(task="tests.echo"))
    assert (end["status"], end["reason"]) == ("FAILED", "ValueError: no")


def test_outcomes_arrive_as_objects_where_the_hint_says_so():
    reads = task(name="tests.results.reads")(reads_outcomes)
    enqueue(group([echo.bind("one"), fail_with.bind("no")], then=reads.bind(outcomes)))
    drain()
    last = Job.objects.get(task="tests.results.reads")
    assert returned(last) == ["SUCCESSFUL one", "FAILED None"]


def reads_outcomes(ends: list[Outcome]) -> list[str]:
    return [f"{end.status} {end.value}" for end in ends]


# after=


def test_job_after_others_names_them():
    user, cart = enqueue(echo, "Ann"), enqueue(echo, {"items": [1, 2]})
    bound = pair.using(after={"user": user, "cart": cart}).bind(
        result.user, result.cart["items"]
    )
    last = enqueue(bound)
    drain()
    assert returned(last) == ["Ann", [1, 2]]


def test_job_that_was_bound_before_is_known_by_what_was_bound():
    first = add.bind(1, 2)
    job, other = enqueue(first), enqueue(echo, 5)
    last = pair.using(after=[job, other]).bind(first.result).enqueue()
    drain()
    assert returned(last) == [3, None]


def test_only_job_or_batch_needs_no_name():
    job = enqueue(add, 1, 2)
    batch = enqueue(group([add.bind(1, 0), chain(echo.bind(0), add.bind(2, 0))]))
    first = echo.using(after=job).enqueue(result)
    second = echo.using(after=batch).enqueue(results)
    third = pair.using(after={"one": job, "all": batch}).enqueue(
        result.one, results.all
    )
    drain()
    assert returned(first) == 3
    assert returned(second) == [1, 2]
    assert returned(third) == [3, [1, 2]]


def test_results_of_several_jobs_are_a_list():
    jobs = [enqueue(add, number, 0) for number in (3, 1, 2)]
    last = echo.using(after=jobs).enqueue(results)
    drain()
    assert returned(last) == [3, 1, 2]


def test_bound_task_is_enqueued_from_async_code():
    first = async_to_sync(aenqueue)(add.bind(1, 2))
    last = async_to_sync(aenqueue)(echo.using(after=first).bind(result))
    drain()
    assert returned(last) == 3


def test_outcomes_after_one_job_are_one():
    job = enqueue(fail_with, "no")
    last = echo.using(after=job, after_failure="run").enqueue(outcomes)
    drain()
    end = returned(last)
    assert (end["id"], end["status"]) == (job.pk, "FAILED")


def test_value_is_none_where_the_job_before_failed_and_may():
    job = enqueue(fail_with, "no")
    last = pair.using(after=job, after_failure="run").enqueue(result, result["part"])
    drain()
    assert returned(last) == [None, None]


# Misfits


def test_misfit_ends_failed_and_names_both_tasks():
    first, last = enqueue(chain(echo.bind("text"), add.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert last.failures == 1
    assert last.reason == (
        "Invalid arguments for tests.add: a: input should be a valid integer, got "
        f"'text' (the result of job {first.pk}, tests.echo)."
    )
    assert last.kwargs == {"b": 1}


def test_retry_of_a_misfit_reads_the_job_before_as_it_is_then():
    first, last = enqueue(chain(echo.bind("text"), add.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    Job.objects.filter(pk=first.pk).update(return_value=4)
    last.retry()
    drain()
    assert returned(last) == 5


def test_missing_part_ends_failed_and_says_which():
    first, last = enqueue(chain(echo.bind({"a": 1}), echo.bind(result["b"][0])))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert "value: the result has no ['b'][0]" in last.reason
    assert f"the result of job {first.pk}, tests.echo" in last.reason


def test_later_attempts_get_the_stored_value():
    flaky = task(name="tests.results.flaky", backoff=lambda failures: 0)(fails_once)
    _, last = enqueue(chain(echo.bind(5), flaky.bind(result)))
    drain()
    assert returned(last) == 5
    assert last.attempts == 2


def fails_once(value: int) -> int:
    job = current_job()
    if job.attempt == 1:
        source = Job.objects.get(task="tests.echo")
        Job.objects.filter(pk=source.pk).update(return_value=99)
        raise ValueError("once")
    return value


def test_job_whose_predecessor_was_deleted_fails_and_says_so():
    first, last = enqueue(
        chain(echo.bind(5), echo.using(queue_name="later").bind(result))
    )
    drain(queues=("default",))
    last.refresh_from_db()
    assert last.status in ("READY", "WAITING")
    Job.objects.filter(pk=first.pk).delete()
    drain()
    last.refresh_from_db()
    assert last.status in ("FAILED", "CANCELLED")
    assert "gone" in last.reason

"""Tasks by their names: for people, for pickles and for copies."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta

import pytest

from pgjobs import enqueue, get_task
from pgjobs.exceptions import InvalidTask, UnknownTask
from tests import standard_tasks, tasks

LATER = tasks.add.using(priority=7, run_after=timedelta(hours=1), unique=True)


def test_task_is_found_by_its_name():
    assert get_task("tests.noop") is tasks.noop


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tests.nop", "No task registered as 'tests.nop'. Did you mean 'tests.noop'?"),
        ("of.another.path.kill_own_process", "Did you mean 'tests.kill_own_process'?"),
        ("zzz", "No task registered as 'zzz'."),
        (None, "No task registered as 'None'."),
    ],
)
def test_name_that_no_task_has_is_answered_with_the_nearest(name, message):
    with pytest.raises(UnknownTask) as unknown:
        get_task(name)
    assert str(unknown.value).endswith(message)


def test_name_is_no_task_but_get_task_is_named():
    with pytest.raises(InvalidTask, match=r"the task of that name, get_task\('tests"):
        enqueue("tests.noop")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_task_is_the_task_of_its_name(protocol):
    assert pickle.loads(pickle.dumps(tasks.add, protocol)) is tasks.add


def test_task_with_other_options_keeps_them_in_a_pickle():
    for task in (LATER, LATER.using(priority=8, unique_key="one")):
        got = pickle.loads(pickle.dumps(task))
        assert got.options == task.options
        assert got.bind(1, 2).new_job == task.bind(1, 2).new_job
        assert got.original is tasks.add


def test_bound_task_can_be_pickled():
    bound = LATER.bind(1, 2)
    assert pickle.loads(pickle.dumps(bound)).new_job == bound.new_job


def test_task_of_django_can_be_pickled():
    standard_tasks.add.get_backend().adapt(standard_tasks.add)
    adapter = get_task("default:tests.standard_tasks.add")
    assert pickle.loads(pickle.dumps(adapter)) is adapter


def test_copy_of_a_task_is_the_task():
    assert copy.copy(tasks.add) is tasks.add
    assert copy.deepcopy([tasks.add]) == [tasks.add]
    assert copy.copy(LATER).options == LATER.options


def test_task_can_be_given_to_a_pool_of_processes():
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(tasks.add, 2, 3).result() == 5


UNPICKLE = """
import pickle, sys
import django
django.setup()
print(pickle.loads(bytes.fromhex(sys.argv[1])))
"""


def test_new_process_imports_the_module_of_a_pickled_task():
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLE, pickle.dumps(tasks.add).hex()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "<Task tests.add>\n"

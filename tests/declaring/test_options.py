"""Options that features bring, and those that the core has without them."""

import subprocess
import sys
from dataclasses import fields

import pytest

import pgjobs
from pgjobs.exceptions import InvalidTask
from pgjobs.features.schedules.options import Recurrence
from pgjobs.features.units.options import Units
from pgjobs.tasks.arguments import Stored
from pgjobs.tasks.options import (
    DECLARING,
    GROUPS,
    JOB_OPTIONS,
    TASK_OPTIONS,
    Options,
    OwnOptions,
    names_in,
)
from tests.tasks import add

# The package without its face, which names features, and without any feature.
WITHOUT_FEATURES = f"""
import sys
from types import ModuleType

from django.conf import settings

sys.modules["pgjobs"] = package = ModuleType("pgjobs")
package.__path__ = {list(pgjobs.__path__)!r}
settings.configure(USE_TZ=True)

import pgjobs.features
pgjobs.features.FEATURES = ()

from pgjobs.exceptions import InvalidTask
from pgjobs.tasks.options import Options, OwnOptions
from pgjobs.tasks.task import Task, task

def double(number: int):
    return 2 * number

double.__module__ = "shop.tasks"
made = task(priority=5, lock="one")(double)
assert isinstance(made, Task) and isinstance(made.options, OwnOptions)
assert made.options.priority == 5
for option in ("every", "dependencies", "on_success", "write_all", "process_units"):
    try:
        task(**{{option: 1}})
    except InvalidTask as error:
        assert f"@task has no option '{{option}}'" in str(error), error
    else:
        raise AssertionError(option)
print([name for name in sys.modules if name.startswith("pgjobs.features.")])
"""


def test_core_declares_tasks_without_any_feature():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_FEATURES],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.stderr, run.stdout) == ("", "[]\n")


def test_own_options_say_nothing_that_only_features_know():
    own = OwnOptions(priority=5)
    assert own.new_job("tests.add", Stored("[]", "{}")).priority == 5
    assert not own.has_dependencies(add)
    assert own.enqueue_several(add, (1,), {}) is None
    assert own.definition(add.signature) == own.fixed_keys() == {}
    assert own.rows() == ()


def test_options_are_those_of_the_core_and_of_each_feature():
    assert names_in(Options) == names_in(OwnOptions, *GROUPS)
    assert sum(len(fields(group)) for group in (OwnOptions, *GROUPS)) == len(
        fields(Options)
    )  # no two have an option of the same name
    only_of_jobs = {name for group in GROUPS for name in group.only_of_jobs}
    assert names_in(*GROUPS) - TASK_OPTIONS == only_of_jobs == {"after", "batch"}
    assert not TASK_OPTIONS & DECLARING.keys()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_using_takes_the_options_of_a_group_if_it_is_for_jobs(group):
    taken = names_in(group) & JOB_OPTIONS
    assert taken == (names_in(group) if group.for_jobs else set())


def test_group_checks_its_values_and_adds_its_columns():
    with pytest.raises(InvalidTask, match="process_units must be a whole number"):
        Options(process_units=0)
    assert add.using(process_units=3).bind(1, b=2).new_job.process_units == 3
    assert Units in GROUPS


@pytest.mark.parametrize("name", ["dependencies", "write_all"])
def test_option_of_a_feature_that_tasks_alone_take_is_sent_there(name):
    with pytest.raises(InvalidTask, match=rf"\(say @task\({name}=\.\.\.\)\)"):
        add.using(**{name: ()})


def test_option_that_declares_something_beside_is_no_option_of_the_jobs():
    assert DECLARING["every"] is Recurrence
    assert "every" not in names_in(Options)

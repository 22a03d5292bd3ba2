"""The docstrings of the public API say what a call takes, returns and raises."""

import inspect
import re

import pytest

import pgjobs
from pgjobs import testing
from pgjobs.models import Batch, Event, Job, Queue, Schedule
from pgjobs.models.job_set import JobQuerySet
from pgjobs.tasks.running_job import RunningJob

# The worker's side of a running job, and what a model does with declarations.
INTERNAL = {"take_report", "put_back", "take_over", "plan_again", "plan_next"}
# Filters of jobs that are called as the status is.
STATUSES = {"ready", "scheduled", "waiting", "running", "failed", "finished"}
CLASSES = (RunningJob, Job, JobQuerySet, Batch, Event, Queue, Schedule)


def public_functions():
    for module in (pgjobs, testing):
        for name in module.__all__:
            if inspect.isfunction(function := getattr(module, name)):
                yield f"{module.__name__}.{name}", function
    for owner in CLASSES:
        for name, member in vars(owner).items():
            if inspect.isfunction(member) and is_public(name):
                yield f"{owner.__name__}.{name}", member


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL | STATUSES


def unnamed(function, text: str) -> list[str]:
    """Return the parameters of which the docstring does not speak."""
    names = set(inspect.signature(function).parameters) - {"self", "cls"}
    return sorted(name for name in names if not re.search(rf"\b{name}\b", text))


@pytest.mark.parametrize(
    "function", [pytest.param(f, id=name) for name, f in public_functions()]
)
def test_docstring_says_what_the_function_takes_and_returns(function):
    text = inspect.getdoc(function) or ""
    assert text
    if re.search(r"\b([Ss]ee|as) `[\w.]+`", text):
        return
    assert not unnamed(function, text)
    returned = inspect.signature(function).return_annotation
    if returned not in (None, inspect.Signature.empty):
        assert re.search(r"\breturns?\b", text, re.I), (
            "It does not say what it returns."
        )


@pytest.mark.parametrize("owner", [*CLASSES, pgjobs, testing], ids=lambda o: o.__name__)
def test_docstring_says_what_the_class_or_module_is(owner):
    assert owner is JobQuerySet or inspect.getdoc(owner)

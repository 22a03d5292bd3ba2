"""The docstrings of the public API say what a call takes, returns and raises."""

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import fields
from importlib import import_module

import pytest

import pgjobs
from pgjobs import exceptions, models, testing, views
from pgjobs.features.batches.declare import Chain, Group
from pgjobs.features.durable.job import Answering
from pgjobs.features.durable.running_job import Waiting
from pgjobs.features.schedules.options import Recurrence
from pgjobs.models import Batch, Event, Job, Queue, Schedule
from pgjobs.models.job_set import JobQuerySet
from pgjobs.tasks.options import Options
from pgjobs.tasks.running_job import OwnRunningJob, RunningJob
from pgjobs.tasks.task import Task
from tests.documents.examples import ROOT

# The worker's side of a running job, what a model does with declarations, and what
# pgjobs itself asks of a task.
INTERNAL = {
    "take_report", "put_back", "event_with", "take_over", "plan_again", "plan_next",
    "key_columns", "normalized", "successor", "ends",
}  # fmt: skip
# Filters of jobs that are called as the status is.
STATUSES = {"ready", "scheduled", "waiting", "running", "failed", "finished"}
CLASSES = (
    Task, Chain, Group, RunningJob, OwnRunningJob, Waiting, Job, Answering, JobQuerySet,
    Batch, Event, Queue, Schedule,
)  # fmt: skip
# A docstring that leaves the rest to that of another function.
REFERENCE = re.compile(r"\b([Ss]ee|as) `[\w.]+`")
API = (ROOT / "docs/reference/api.md").read_text()
# The names of all classes of pgjobs.
OURS = {
    each.__name__
    for module in [*sys.modules.values()]
    if module.__name__.startswith("pgjobs")
    for each in vars(module).values()
    if inspect.isclass(each) and each.__module__.startswith("pgjobs")
}
EXCEPTIONS = [
    each
    for each in vars(exceptions).values()
    if inspect.isclass(each)
    and issubclass(each, BaseException)
    and each.__module__ == exceptions.__name__
]


def public_functions():
    for module in (pgjobs, testing):
        for name in module.__all__:
            if inspect.isfunction(function := getattr(module, name)):
                yield f"{module.__name__}.{name}", function
    for view in (views.job_status, views.holds_address):
        yield f"views.{view.__name__}", inspect.unwrap(view)
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
    if REFERENCE.search(text):
        return
    assert not unnamed(function, text)
    returned = inspect.signature(function).return_annotation
    if returned not in (None, inspect.Signature.empty):
        assert re.search(r"\breturns?\b", text, re.I), (
            "It does not say what it returns."
        )


@pytest.mark.parametrize("owner", [OwnRunningJob, Waiting, Answering])
def test_reference_lists_what_a_job_can_do(owner):
    listed = {*re.findall(r"\w+", " ".join(re.findall(r":members: (.+)", API)))}
    calls = {name for name, each in vars(owner).items() if inspect.isfunction(each)}
    assert {name for name in calls if is_public(name)} - listed == set()


MODELS = [getattr(models, name) for name in models.__all__]


@pytest.mark.parametrize(
    "owner",
    dict.fromkeys([*CLASSES, *MODELS, pgjobs, testing]),  # each once
    ids=lambda owner: owner.__name__,
)
def test_docstring_says_what_the_class_or_module_is(owner):
    text = owner.__dict__["__doc__"]  # not that of the class above
    assert text and not text.startswith(f"{owner.__name__}(")  # which Django writes


def units(annotation) -> set[str]:
    """Return the words by which a text says what a duration of this type is."""
    text = str(annotation)
    if "timedelta" not in text:
        return set()
    return {"second", "timedelta"} if "float" in text else {"timedelta"}


@pytest.mark.parametrize(
    "function",
    [
        *(pytest.param(f, id=name) for name, f in public_functions()),
        *(pgjobs.Retry, pgjobs.Snooze, pgjobs.Dependency),
    ],
)
def test_docstring_says_the_unit_of_a_duration(function):
    text = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters.values():
        wanted = units(parameter.annotation)
        if wanted and not REFERENCE.search(text):
            assert {each for each in wanted if each not in text} == set(), parameter


@pytest.mark.parametrize("owner", [Options, Recurrence])
def test_comment_of_an_option_says_the_unit_of_a_duration(owner, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    about = import_module("generated").comments_of_fields(owner)
    found = {each.name: units(each.type) for each in fields(owner)}
    assert found["jitter" if owner is Recurrence else "timeout"]
    for name, wanted in found.items():
        assert {each for each in wanted if each not in about[name]} == set(), name


def classes_in(signature: inspect.Signature) -> set[str]:
    """Return the classes of pgjobs that a signature names."""
    return {word for word in re.findall(r"\b[A-Z]\w+", str(signature)) if word in OURS}


@pytest.mark.parametrize(
    "function", [pytest.param(f, id=name) for name, f in public_functions()]
)
def test_reference_explains_the_classes_of_the_signature(function):
    for name in classes_in(inspect.signature(function)):
        assert re.search(rf"\b{name}\b", API), name


def test_classes_of_signatures_are_found():
    assert "Changed" in classes_in(inspect.signature(JobQuerySet.retry))
    assert "BoundTask" in classes_in(inspect.signature(Task.bind))


def raised_by(function) -> set[str]:
    """Return the names of the exceptions that the function's own lines raise."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    raised = (each.exc for each in ast.walk(tree) if isinstance(each, ast.Raise))
    called = (each.func for each in raised if isinstance(each, ast.Call))
    return {ast.unparse(each) for each in called}


@pytest.mark.parametrize(
    "function", [pytest.param(f, id=name) for name, f in public_functions()]
)
def test_docstring_names_what_the_function_raises(function):
    text = inspect.getdoc(function) or ""
    assert {name for name in raised_by(function) if name not in text} == set()


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda each: each.__name__)
def test_exception_says_when_it_is_raised(exception):
    assert exception.__doc__


@pytest.mark.parametrize("name", ["Retry", "Fail", "Snooze", "Cancel"])
def test_exception_for_tasks_says_what_it_takes(name):
    exception = getattr(pgjobs, name)
    assert not unnamed(exception.__init__, exception.__doc__)


def test_exceptions_and_raises_are_found():
    assert {each.__name__ for each in EXCEPTIONS} >= {"Retry", "JobFailed", "LeaseLost"}
    assert raised_by(Job.get_status_url) == {"ValueError"}

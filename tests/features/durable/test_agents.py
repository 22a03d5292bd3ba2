"""The agent of docs/guides/agents.md, whose worker is killed: it repeats no call.

The code is that of the page. The model is one of Pydantic AI's own for tests.
"""

import os
import re
import sys
from importlib import import_module

import pytest
from django.db import connection

from pgjobs import enqueue
from pgjobs.models import Step, Wait
from pgjobs.testing import run_jobs
from tests.documents.examples import ROOT, python_blocks
from tests.processes import database_url, wait_for, wait_for_status
from tests.tasks import lines

exceptions = pytest.importorskip("pydantic_ai.exceptions")
messages = pytest.importorskip("pydantic_ai.messages")
toolsets = pytest.importorskip("pydantic_ai.toolsets")
function_models = pytest.importorskip("pydantic_ai.models.function")
pytestmark = pytest.mark.django_db(transaction=True)
BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 1.6}
FILE = re.compile(r"# shop/(steps|agents|tasks)\.py\n")
LETTER = "My kettle of order 5 is broken."
# Each call leaves a line. Before the second one of the model its worker stands still:
# there the test kills it.
SCRIPT = """
import time
from pathlib import Path

from django.conf import settings
from pydantic_ai import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tests.tasks import write

from . import tasks

PATH = Path(__file__).with_name("lines")
STANDS = PATH.with_name("stands")
call_tool = FunctionToolset.call_tool


def reply(messages, info):
    number = sum(isinstance(each, ModelResponse) for each in messages) + 1
    if number == 2 and not STANDS.exists():
        STANDS.touch()
        time.sleep(600)
    write(PATH, f"model {number}")
    match number:
        case 1:
            return ModelResponse(parts=[ToolCallPart("look_up", {"order_id": 5})])
        case 2:
            wanted = {"order_id": 5, "euros": 40}
            return ModelResponse(parts=[ToolCallPart("pay_back", wanted)])
    return ModelResponse(parts=[TextPart("You have your money back.")])


async def noted(self, name, arguments, context, tool):
    write(PATH, name)
    return await call_tool(self, name, arguments, context, tool)


FunctionToolset.call_tool = noted
settings.AGENT_MODEL = FunctionModel(reply)
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Make a package of the page's modules; return its `tasks`."""
    folder = tmp_path / "letters"
    folder.mkdir()
    for block in python_blocks(ROOT / "docs/guides/agents.md"):
        if named := FILE.match(block):
            (folder / f"{named[1]}.py").write_text(block)
    (folder / "script.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("letters.tasks")
    for name in [each for each in sys.modules if each.partition(".")[0] == "letters"]:
        del sys.modules[name]


@pytest.fixture
def worker_of_page(start_worker, tmp_path):
    """Return a function that starts a worker of the page's task and the script."""
    paths = (tmp_path, ROOT, ROOT / "example_project")

    def start():
        database = connection.settings_dict["NAME"]
        return start_worker(
            settings={**BRISK, "TASK_MODULES": ["letters.script"]},
            # With all apps, because a permission is one of Django's.
            PGJOBS_IN_TEST_PROCESS="",
            PYTEST_XDIST_WORKER="",
            DATABASE_URL=f"{database_url().removesuffix('/postgres')}/{database}",
            PYTHONPATH=os.pathsep.join(map(str, paths)),
        )

    return start


@pytest.mark.slow
def test_agent_whose_worker_is_killed_between_two_calls_repeats_none(
    page, worker_of_page, tmp_path
):
    path = tmp_path / "letters/lines"
    worker = worker_of_page()
    job = enqueue(page.answer_letter, LETTER)
    wait_for(lambda: (tmp_path / "letters/stands").exists(), "one call is done")
    worker.kill()
    worker_of_page()
    wait_for_status(job, "WAITING")
    assert lines(path) == ["model 1", "look_up", "model 2"]
    assert job.answer(Wait.objects.get(job=job).name, True)
    wait_for_status(job, "SUCCESSFUL")
    assert job.return_value == "You have your money back."
    assert lines(path) == ["model 1", "look_up", "model 2", "pay_back", "model 3"]


def calls(*parts):
    return messages.ModelResponse(
        parts=[messages.ToolCallPart(*each) for each in parts]
    )


def says(text: str):
    return messages.ModelResponse(parts=[messages.TextPart(text)])


def script(settings, *replies) -> list[int]:
    """Let the model give these replies, in their order; return what it was asked."""
    asked = []

    def reply(history, info):
        number = sum(isinstance(each, messages.ModelResponse) for each in history)
        asked.append(number)
        reply = replies[number]
        if isinstance(reply, list):  # of what each try brings
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    settings.AGENT_MODEL = function_models.FunctionModel(reply)
    return asked


def test_person_who_refuses_keeps_the_tool_from_being_called(page, settings):
    wanted = ("pay_back", {"order_id": 5, "euros": 40})
    asked = script(settings, calls(wanted), says("We cannot."))
    job = enqueue(page.answer_letter, LETTER)
    run_jobs()
    assert job.answer(Wait.objects.get(job=job).name, False)
    run_jobs(replay=True)
    job.refresh_from_db()
    assert (job.return_value, asked) == ("We cannot.", [0, 1])
    assert not Step.objects.filter(job=job, name__startswith="pay_back").exists()


def test_tools_that_are_called_at_the_same_time_are_a_step_each(page, settings):
    both = calls(("look_up", {"order_id": 5}), ("look_up", {"order_id": 6}))
    script(settings, both, says("Both are kettles."))
    job = enqueue(page.answer_letter, LETTER)
    run_jobs(replay=True)
    job.refresh_from_db()
    assert job.return_value == "Both are kettles."
    assert Step.objects.filter(job=job, name__startswith="look_up ").count() == 2


def test_call_that_fails_is_repeated_alone(page, settings):
    fails_once = [ConnectionError("The model is away."), says("Done.")]
    asked = script(settings, calls(("look_up", {"order_id": 5})), fails_once)
    job = enqueue(page.answer_letter, LETTER)
    run_jobs(raise_errors=False, with_retries=True)
    job.refresh_from_db()
    assert (job.return_value, job.failures) == ("Done.", 1)
    assert asked == [0, 1, 1]


def test_tool_that_tells_the_model_to_try_again_is_called_once(
    page, settings, monkeypatch
):
    tried = []

    async def refuses(self, name, *arguments):
        tried.append(name)
        raise exceptions.ModelRetry("There is no such order.")

    monkeypatch.setattr(toolsets.FunctionToolset, "call_tool", refuses)
    unknown = calls(("look_up", {"order_id": 404}))
    wanted = calls(("pay_back", {"order_id": 5, "euros": 40}))
    script(settings, unknown, wanted, says("We cannot."))
    job = enqueue(page.answer_letter, LETTER)
    run_jobs()
    assert job.answer(Wait.objects.get(job=job).name, False)
    run_jobs()
    job.refresh_from_db()
    assert (job.return_value, tried) == ("We cannot.", ["look_up"])

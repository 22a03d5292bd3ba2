"""The examples of Django's documentation run, and those of our pages on its tasks."""

import importlib
import re
import sys
from datetime import datetime, timedelta
from functools import partial

import django
import pytest
from asgiref.sync import async_to_sync
from django.core import mail
from django.db import transaction
from django.utils import timezone

from pgjobs.features.django_tasks.declare import (
    DECLARABLE,
    ON_COMMIT,
    PER_JOB,
    PROPOSED,
)
from tests.documents.examples import (
    OF_DJANGO_TASKS,
    document,
    imports,
    modules_of_pages,
    python_blocks,
)
from tests.processes import drain
from tests.standard import (
    TaskResultStatus,
    default_task_backend,
    task_backends,
    tasks,
)
from tests.support.documented_tasks import (
    double_dictionary,
    email_users,
    email_users_with_attributes,
    email_users_with_context,
    my_task,
)

runs = pytest.mark.django_db(transaction=True)
PAGES = sorted(OF_DJANGO_TASKS)
MAIL = {
    "emails": ["user@example.com"],
    "subject": "You have a message",
    "message": "Hello there!",
}


@runs
def test_tasks_are_enqueued_and_run():
    result = email_users.enqueue(**MAIL)
    email_users_with_attributes.enqueue(**MAIL)
    email_users_with_context.enqueue(**MAIL)
    async_to_sync(email_users.aenqueue)(**MAIL)
    drain()
    assert len(mail.outbox) == 4
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value == 1


@runs
def test_task_is_modified_before_it_is_enqueued():
    assert email_users_with_attributes.priority == 2
    assert email_users_with_attributes.queue_name == "emails"
    assert email_users.using(priority=10).priority == 10
    assert email_users.priority == 0
    later = timezone.now() + timedelta(hours=1)
    assert email_users.using(run_after=later).enqueue(**MAIL).task.run_after == later


@runs
def test_task_is_enqueued_on_commit():
    with transaction.atomic():
        transaction.on_commit(partial(my_task.enqueue, thing_num=1))
    with transaction.atomic():
        my_task.enqueue(thing_num=2)
    assert drain() is not None


@runs
def test_results_are_found_by_id():
    result_id = email_users.enqueue(**MAIL).id
    assert email_users.get_result(result_id).id == result_id
    assert async_to_sync(email_users.aget_result)(result_id).id == result_id
    assert default_task_backend.get_result(result_id).task == email_users
    assert task_backends["default"].get_result(result_id).args == []


@runs
def test_arguments_must_be_json():
    with pytest.raises(TypeError):
        double_dictionary.enqueue(datetime.now())


@runs
def test_tuple_arrives_as_a_list():
    result = double_dictionary.enqueue((1, 2, 3))
    with pytest.raises(ValueError, match="Task has not finished yet"):
        result.return_value  # noqa: B018
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is TypeError
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert "unhashable type: 'list'" in error.traceback.splitlines()[-1]


# Our own pages


@pytest.fixture
def modules_of_page(monkeypatch):
    """Let `django.tasks` be there in all versions, and pages define `shop.tasks`."""
    if django.VERSION < (6, 0):
        monkeypatch.setitem(sys.modules, "django.tasks", tasks)
    with modules_of_pages():
        yield


@runs
@pytest.mark.usefixtures("modules_of_page")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_the_page_run(page):
    for example in document(page).examples():
        example.evaluate()


def is_installed_here(module: str) -> bool:
    return module.startswith("pgjobs") or (
        module == "django.tasks" and django.VERSION >= (6, 0)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_imports_what_there_is(page):
    for block in python_blocks(page):
        for module, name in imports(block):
            if is_installed_here(module):
                assert hasattr(importlib.import_module(module), name), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_names_options_that_there_are(page):
    known = {
        "task_options": DECLARABLE | {ON_COMMIT},
        "using": PER_JOB | PROPOSED | {"run_after", "priority", "queue_name"},
    }
    text = re.sub(r"timedelta\([^)]*\)", "0", page.read_text())
    for name, options in known.items():
        for given in re.findall(rf"\b{name}\(([^)\n]*)", text):
            assert set(re.findall(r"(\w+)=", given)) <= options


def test_pages_have_blocks():
    assert len(PAGES) == 5
    assert all(python_blocks(page) for page in PAGES)

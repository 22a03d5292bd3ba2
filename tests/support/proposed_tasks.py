"""Tasks that use what is proposed for Django, named by what they do."""

import os
import time

from django.db import transaction

from pgjobs import Fail, task_options
from pgjobs.exceptions import TaskTimeout
from pgjobs.models import Job
from tests.standard import task

seen = []  # what backoffs were called with


def by_error(exception, task_result):
    seen.append((exception, task_result))
    return None if isinstance(exception, LookupError | TaskTimeout) else 0


def fail_first_of(context):
    if context.attempt == 1:
        raise ValueError("the first attempt")
    return context.attempt


@task(takes_context=True)
@task_options(max_attempts=3, backoff=by_error)
def fail_first(context):
    return fail_first_of(context)


@task(takes_context=True)
@task_options(max_attempts=3, backoff=by_error)
async def fail_first_on_the_loop(context):
    return fail_first_of(context)


@task
@task_options(max_attempts=3, backoff=by_error)
def not_found():
    raise LookupError("no such page")


@task
@task_options(max_attempts=3, backoff=by_error, timeout=0.1)
def hang():
    time.sleep(1)


@task
@task_options(max_attempts=3, max_crashes=2, backoff=by_error, isolated=True)
def die_with_its_process():
    os._exit(1)


@task(takes_context=True)
def tell(context):
    return context.metadata


@task(takes_context=True)
@task_options(max_attempts=1)
def change(context, fails=False):
    context.metadata["changed"] = True
    if fails:
        raise Fail("changed, and failed")


@task(takes_context=True)
async def change_on_the_loop(context):
    context.metadata["changed"] = True
    await context.asave_metadata()
    context.metadata["last"] = 1


@task(takes_context=True)
@task_options(atomic=True)
def change_and_break_the_transaction(context):
    context.metadata["changed"] = True
    with transaction.get_connection().cursor() as cursor:
        cursor.execute("SELECT 1/0")


@task(takes_context=True)
def save_in_what_is_rolled_back(context):
    context.metadata["changed"] = True
    with transaction.atomic():
        context.save_metadata()
        raise ValueError


@task(takes_context=True)
def note_what_another_returned(context, other):
    (end,) = context.wait_for_jobs("other", [other])
    context.metadata["seen"] = end.value


@task(takes_context=True)
@task_options(max_attempts=3)
def spoil(context):
    context.metadata["spoilt"] = object()


@task(takes_context=True)
def enqueue_another(context):
    return tell.enqueue().id


@task(takes_context=True)
def lose_and_change(context):
    Job.objects.get(pk=context.id).fail("an operator was faster")
    context.metadata["changed"] = True

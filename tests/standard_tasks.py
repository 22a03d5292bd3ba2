"""Small tasks of `django.tasks` for the tests, named by what they do."""

import asyncio
import time

from django.db import connection

from pgjobs import Cancel, Fail, Retry, Snooze, current_job, task_options
from tests.standard import task
from tests.tasks import kill_own_process, wait_for_go, write


@task
def noop(*args, **kwargs):
    return None


@task
async def noop_async(*args, **kwargs):
    return None


@task
def echo(value):
    return value


@task
def add(a, b=1):
    return a + b


@task
async def add_async(a, b=1):
    await asyncio.sleep(0)
    return a + b


@task
def fail(message="no"):
    raise ValueError(message)


@task
def fail_with_nul():
    raise ValueError("with \0")


@task
def fail_with_a_cause():
    try:
        raise ValueError("This task failed")
    except ValueError as error:
        raise ValueError(error) from error


@task
def exit_process():
    raise SystemExit("It wants to leave")


@task
def return_what_is_no_json():
    return {1, 2}


@task
def return_what_django_normalises():
    return {"bytes": b"text", "tuple": (1, 2)}


@task
def return_numbers_as_keys():
    return {2024: {1: 2}, None: 1}


@task
def return_nan():
    return float("nan")


@task(takes_context=True)
def tell_context(context, word="hello"):
    result = context.task_result
    return {
        "attempt": context.attempt,
        "id": result.id,
        "status": result.status,
        "word": word,
        "workers": len(result.worker_ids),
        "started": result.started_at is not None,
        "path": result.task.module_path,
        "args": result.args,
        "priority": result.task.priority,
    }


@task(takes_context=True)
def ask(context):
    first = context.step("first", int)
    return [first, context.wait_for("question", str)]


@task(takes_context=True)
async def tell_attempt_async(context):
    return context.attempt


@task
def break_transaction():
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute("SELECT 1 / (SELECT 0)")


@task
def hold(path):
    write(path, "held")
    wait_for_go(path)


@task
def sleep(seconds):
    time.sleep(seconds)


@task
@task_options(max_attempts=3, backoff=lambda failures: 0)
def fail_twice():
    attempt = current_job().attempt
    if attempt < 3:
        raise ValueError(f"attempt {attempt}")
    return attempt


@task
@task_options(max_attempts=2, backoff=lambda failures: 3_600)
def fail_and_wait():
    raise ValueError("later")


@task
@task_options(lock="account-{account}", timeout=60, expires=None)
def locked(account, amount=1):
    return amount


@task
@task_options(unique=("account",))
def once(account, note=""):
    return note


@task
@task_options(max_running=1, limit_key="{account}", rate="100/minute")
def limited(account):
    pass


@task
@task_options(atomic=True)
def is_atomic():
    return connection.in_atomic_block


@task
@task_options(timeout=0.2)
def sleep_too_long():
    while True:
        time.sleep(0.01)


@task
def cancel_itself():
    raise Cancel("Not needed.")


@task
def fail_for_good():
    raise Fail("Broken.")


@task
@task_options(max_attempts=2)
def ask_for_retry():
    if current_job().attempt == 1:
        raise Retry(after=0)
    return "done"


@task
def snooze_once():
    if current_job().attempt == 1:
        raise Snooze(0)


@task
def die():
    kill_own_process.function()


def undecorated():
    pass


# Their paths lead to something else.
renamed = task(undecorated)
hidden = task(lambda: None)


def defined_twice():
    return 1


first_of_two = task(defined_twice)


@task
def defined_twice():
    return 2


@task
@task_options(sensitive=("iban",), lock="{iban}", unique=True)
def pay(iban, amount, password="", *words, how="fail"):
    if how == "fail":
        raise ValueError(f"{iban} has no {amount}, {password}, {words}")
    return None


@task
def goes_on(number):
    if number == 0:
        current_job().continue_as(number=1)
    return number

"""System checks of declared schedules."""

from django.core.checks import CheckMessage, Error, register

from ...conf import problems
from ...exceptions import InvalidArguments, InvalidTask
from . import declare as schedules


@register("pgjobs")
def check_schedules(**kwargs) -> list[CheckMessage]:
    """Check that schedules have names of their own, and arguments that fit."""
    if any(problems()):
        return []  # PGJOBS says how large arguments may be
    messages: list[CheckMessage] = []
    for name, declared in sorted(schedules.clashes().items()):
        tasks = ", ".join(sorted(each.task.name for each in declared))
        message = f"{len(declared)} schedules have the name {name!r}, of tasks {tasks}."
        hint = "Give one of them another name: @schedule(name=...)."
        messages.append(Error(message, hint=hint, id="pgjobs.E020"))
    for declaration in schedules.declarations():
        try:
            declaration.values  # noqa: B018  (binds the arguments)
        except InvalidArguments as error:
            message = f"Schedule {declaration.name!r}: {error}"
            hint = "Give them by @schedule(arguments={...}), or give them defaults."
            messages.append(
                Error(message, hint=hint, obj=declaration.task, id="pgjobs.E021")
            )
        except InvalidTask:
            continue  # check_tasks reports it
    return messages

"""System checks of tasks that wait."""

from collections.abc import Iterator
from difflib import get_close_matches
from inspect import unwrap
from types import CodeType
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve

from ...base.addresses import path_of
from ...tasks.registry import registry
from ...tasks.task import Task
from ..events.declare import declarations
from .ways import fits


@register("pgjobs")
def check_waits(**kwargs) -> list[CheckMessage]:
    """Warn of waits that hold up other jobs, or whose event hardly comes."""
    tasks = [task for task in registry.tasks.values() if task.options.waits_for]
    return [*holding_lines(tasks), *misspelt(tasks)]


def holding_lines(tasks: list[Task]) -> Iterator[CheckMessage]:
    for task in tasks:
        if task.options.lock is not None and task.options.lock_mode == "ordered":
            yield Warning(
                f"{task.name} waits for events and has an ordered lock, which stays "
                "its own meanwhile: the jobs behind it wait as long.",
                hint='Say lock_mode="mutex", or let a task without a lock wait.',
                obj=task,
                id="pgjobs.W066",
            )


def misspelt(tasks: list[Task]) -> Iterator[CheckMessage]:
    """Yield a warning for each event whose name nearly is that of another one.

    It is a guess: what `publish` is called with is not known.
    """
    subscribed = {each.event for _, each in declarations()}
    for task in tasks:
        others = {
            name
            for other in tasks
            if other is not task
            for name in other.options.waits_for
        }
        known = subscribed | others
        for name in task.options.waits_for:
            if any(fits(each, name) or fits(name, each) for each in known):
                continue
            for near in get_close_matches(name, known, n=1, cutoff=0.85):
                yield Warning(
                    f"{task.name} waits for the event {name!r}, which nothing else "
                    f"names. Did you mean {near!r}?",
                    hint="If its name is right, silence this: it is only a guess.",
                    obj=task,
                    id="pgjobs.W067",
                )


@register("pgjobs")
def check_answer_pages(**kwargs) -> list[CheckMessage]:
    """Warn if a task makes links to the page for answers, and people cannot use it."""
    tasks = [task for task in registry.tasks.values() if "answer_url" in names(task)]
    if not tasks or not settings.ROOT_URLCONF:  # a worker may have no URLs
        return []
    try:
        path_of("answer", "token")
    except NoReverseMatch:
        return [
            Warning(
                f"{task.name} makes links to a page for answers that is not routed.",
                hint="Add path('jobs/', include('pgjobs.urls')) to the project's URLs.",
                obj=task,
                id="pgjobs.W068",
            )
            for task in tasks
        ]
    needing = [task for task in tasks if "anyone_with_link" not in names(task)]
    if not needing or leads_somewhere(settings.LOGIN_URL):
        return []
    return [
        Warning(
            f"{needing[0].name} makes links to a page for answers. People sign in at "
            f"LOGIN_URL, {settings.LOGIN_URL!r}, which is not routed.",
            hint="Let LOGIN_URL name the page on which users of the project sign in.",
            id="pgjobs.W069",
        )
    ]


def names(task: Task) -> set[str]:
    """Return the names that the code of a task calls or passes arguments by."""
    code = getattr(unwrap(task.function), "__code__", None)
    return set() if code is None else set(names_in(code))


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)
        elif isinstance(constant, tuple):  # names of arguments are among these
            yield from (each for each in constant if isinstance(each, str))


def leads_somewhere(login_url: str) -> bool:
    """Whether a page of the project answers at LOGIN_URL, or it is elsewhere."""
    try:
        parts = urlsplit(resolve_url(login_url))
        if not parts.netloc:
            resolve(parts.path)
    except (NoReverseMatch, Resolver404):
        return False
    return True

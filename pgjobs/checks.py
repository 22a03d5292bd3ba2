"""System checks: what would not work, said before anything runs."""

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from textwrap import shorten

import psycopg
from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from . import declaration_checks, mode_checks, table_checks  # noqa: F401  (checks)
from .base.connections import pool_size
from .conf import problems, settings
from .exceptions import InvalidArguments, InvalidTask, UnknownTask
from .tasks import dependencies, schedules
from .tasks.dependencies import Dependency
from .tasks.dependency_graph import circles, dependency_graph, reachable
from .tasks.flow_control import Key, placeholders
from .tasks.registry import registry
from .tasks.task import Task
from .views import status_permission

TAG = "pgjobs"
SUPPORTED_SERVER = 140000
ISOLATION_LEVELS = (psycopg.IsolationLevel.READ_COMMITTED, None)


@register(TAG)
def check_settings(**kwargs) -> list[CheckMessage]:
    found = [
        Error(problem.message, hint=problem.hint, id="pgjobs.E001")
        for problem in problems()
    ]
    if found:
        return found
    if settings.LEASE_DURATION < 3 * settings.HEARTBEAT_INTERVAL:
        message = (
            f"PGJOBS['LEASE_DURATION'] is {settings.LEASE_DURATION:g} s, less than "
            f"three heartbeats of {settings.HEARTBEAT_INTERVAL:g} s."
        )
        hint = "A living worker that misses one or two would lose its jobs."
        return [Error(message, hint=hint, id="pgjobs.E002")]
    return []


@register(TAG)
def check_connection_settings(**kwargs) -> list[CheckMessage]:
    """Check the database's entry in DATABASES, without connecting."""
    if any(problems()):
        return []  # PGJOBS["DATABASE"] may be what is wrong
    alias = settings.DATABASE
    if alias not in connections:
        return [
            Error(
                f"PGJOBS['DATABASE'] names {alias!r}, which DATABASES does not have.",
                hint=f"DATABASES has {', '.join(sorted(connections))}.",
                id="pgjobs.E003",
            )
        ]
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return [
            Error(
                "pgjobs needs PostgreSQL.",
                hint=f"DATABASES[{alias!r}] uses {connection.display_name}.",
                id="pgjobs.E004",
            )
        ]
    return list(connection_problems(alias, connection))


def connection_problems(
    alias: str, connection: BaseDatabaseWrapper
) -> Iterator[CheckMessage]:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    options = connection.settings_dict["OPTIONS"]
    if not is_psycopg3:
        yield Error(
            "pgjobs needs psycopg 3, but Django uses psycopg2.",
            hint="pip install 'psycopg[binary]', and uninstall psycopg2.",
            id="pgjobs.E005",
        )
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Error(
            f"DATABASES[{alias!r}]['AUTOCOMMIT'] is False.",
            hint="Jobs would be enqueued only when code commits by hand.",
            id="pgjobs.E006",
        )
    if options.get("isolation_level") not in ISOLATION_LEVELS:
        yield Error(
            f"The isolation level of DATABASES[{alias!r}] is not READ COMMITTED.",
            hint="The acts on jobs rely on seeing what others have committed. Give the "
            "queue a database alias of its own (PGJOBS['DATABASE']).",
            id="pgjobs.E007",
        )
    yield from pool_problems(alias)


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield a warning if jobs would wait for each other's connection."""
    size = pool_size(alias)
    if size is not None and size < settings.CONCURRENCY:
        yield Warning(
            f"The connection pool of DATABASES[{alias!r}] has {size} connections for "
            f"{settings.CONCURRENCY} slots of a worker.",
            hint="Set OPTIONS['pool']['max_size'] to at least PGJOBS['CONCURRENCY'], "
            "or jobs wait for each other and time out.",
            id="pgjobs.W008",
        )


@register(TAG)
def check_keys(**kwargs) -> list[CheckMessage]:
    """Check what tasks say about locks, limits and rates that says nothing."""
    return [*idle_keys(), *shared_keys()]


def idle_keys() -> Iterator[CheckMessage]:
    for task in registry.tasks.values():
        options = task.options
        if options.lock_mode != "ordered" and options.lock is None:
            yield Warning(
                f"{task.name} says lock_mode={options.lock_mode!r}, but no lock.",
                hint="It takes effect only with .using(lock=...).",
                obj=task,
                id="pgjobs.W016",
            )
        if is_constant(options.lock) and options.max_running is not None:
            yield Warning(
                f"{task.name} says max_running={options.max_running}, but its jobs "
                f"share the lock {options.lock!r}, and so never run at the same time.",
                hint="Leave one of them out, or name a parameter in the lock.",
                obj=task,
                id="pgjobs.W017",
            )


def shared_keys() -> Iterator[CheckMessage]:
    """Yield a warning for each key that tasks share, but not its numbers."""
    meanings: dict[tuple[str, str], dict[object, str]] = {}
    for task in registry.tasks.values():
        options = task.options
        for name, value in (
            ("limit_key", options.max_running),
            ("rate_key", (options.rate, options.burst)),
        ):
            key = getattr(options, name)
            if is_constant(key):
                meanings.setdefault((name, key), {}).setdefault(value, task.name)
    for (name, key), tasks in meanings.items():
        if len(tasks) > 1:
            number = "max_running" if name == "limit_key" else "rate and burst"
            yield Warning(
                f"{' and '.join(sorted(tasks.values()))} share the {name} {key!r}, but "
                f"differ in {number}.",
                hint="Each job goes by its own numbers: make them the same.",
                id="pgjobs.W018",
            )


def is_constant(key: Key | None) -> bool:
    """Whether all jobs of a task have the same key."""
    return isinstance(key, str) and not list(placeholders(key))


@register(TAG)
def check_admin_actions(**kwargs) -> list[CheckMessage]:
    """Check that the admin's buttons can be drawn, where there is an admin."""
    names = [config.name for config in apps.get_app_configs()]
    if "django.contrib.admin" not in names:
        return []
    cure = "INSTALLED_APPS = ['admin_actions', 'django.contrib.admin', 'pgjobs', ...]"
    if "admin_actions" not in names:
        message = "'admin_actions' is missing in INSTALLED_APPS."
        return [Error(message, hint=cure, id="pgjobs.E009")]
    if names.index("admin_actions") > names.index("django.contrib.admin"):
        message = (
            "'admin_actions' stands after 'django.contrib.admin' in INSTALLED_APPS."
        )
        hint = f"Its templates would not be found, and buttons be missing: {cure}"
        return [Error(message, hint=hint, id="pgjobs.E010")]
    return []


@register(TAG)
def check_tasks(**kwargs) -> list[CheckMessage]:
    """Check that names are unique and hints can be resolved."""
    found: list[CheckMessage] = []
    for name, tasks in sorted(registry.clashes().items()):
        places = ", ".join(sorted(".".join(task.origin) for task in tasks))
        message = f"{len(tasks)} tasks have the name {name!r}: {places}."
        hint = "Give one of them another name: @task(name=...)."
        found.append(Error(message, hint=hint, id="pgjobs.E011"))
    for task in registry.tasks.values():
        try:
            task.signature  # noqa: B018  (made on first use)
        except InvalidTask as error:
            found.append(Error(str(error), obj=task, id="pgjobs.E012"))
    return found


@register(TAG)
def check_process_units(**kwargs) -> list[CheckMessage]:
    """Warn of tasks that take more than workers have unless --units says more."""
    if any(problems()) or settings.PROCESS_UNITS is None:
        return []
    return [
        Warning(
            f"{task.name} takes process_units={task.options.process_units}, but "
            f"PGJOBS['PROCESS_UNITS'] is {settings.PROCESS_UNITS}.",
            hint="Its jobs never run, unless a worker has more: runjobs --units N.",
            obj=task,
            id="pgjobs.W030",
        )
        for task in registry.tasks.values()
        if (task.options.process_units or 1) > settings.PROCESS_UNITS
    ]


@register(TAG)
def check_dependencies(**kwargs) -> list[CheckMessage]:
    """Check that dependencies name tasks that can be enqueued, and no circle."""
    if any(problems()):
        return []
    found: list[CheckMessage] = []
    for task in registry.tasks.values():
        for dependency in task.options.dependencies:
            with suppress(InvalidTask):  # check_tasks reports it
                found += dependency_problems(task, dependency)
    for circle in circles():
        message = f"Tasks depend on each other in a circle: {' -> '.join(circle)}."
        hint = "Their jobs would wait for each other for ever."
        found.append(Error(message, hint=hint, id="pgjobs.E040"))
    return [*found, *shared_lock_problems()]


def dependency_problems(task: Task, dependency: Dependency) -> Iterator[CheckMessage]:
    try:
        target = registry.get(dependency.task_name)
    except UnknownTask:
        near = get_close_matches(dependency.task_name, registry.names(), n=1)
        yield Error(
            f"{task.name} depends on {dependency.task_name!r}, but no task has that "
            "name.",
            hint=f"Did you mean {near[0]!r}?" if near else None,
            obj=task,
            id="pgjobs.E041",
        )
        return
    faults = dependencies.faults_of(dependency, target.signature)
    if faults:
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        yield Error(
            f"{task.name} depends on {target.name} with arguments that this does not "
            f"take: {listed}.",
            hint="Parameters called hours, minutes or within go into args={...}.",
            obj=task,
            id="pgjobs.E042",
        )
    if missing := dependencies.missing(target.signature, dependency):
        names = ", ".join(map(repr, missing))
        yield Warning(
            f"{task.name} depends on {target.name}, which cannot be enqueued for it: "
            f"no value for {names}.",
            hint="Its jobs fail unless other code has enqueued such a job. Give the "
            "Dependency a value for it, or the parameter a default.",
            obj=task,
            id="pgjobs.W043",
        )


def shared_lock_problems() -> Iterator[CheckMessage]:
    """Yield a warning for each task that stands in line before what it waits for."""
    graph = dependency_graph()
    for task in registry.tasks.values():
        if task.options.lock is None or task.options.lock_mode != "ordered":
            continue
        for name in reachable(graph, task.name) - {task.name}:
            target = registry.get(name)
            if (target.options.lock, target.options.lock_mode) == (
                task.options.lock,
                "ordered",
            ):
                yield Warning(
                    f"{task.name} depends on {name}, and both have the ordered lock "
                    f"{task.options.lock!r}: with the same key both would wait for "
                    "ever, for the job that waits comes first in line.",
                    hint="Give one of them another lock, or lock_mode='mutex'.",
                    obj=task,
                    id="pgjobs.W044",
                )


@register(TAG)
def check_status_permission(**kwargs) -> list[CheckMessage]:
    """Check that there is a function to ask who may see a job."""
    if any(problems()):
        return []
    try:
        status_permission()
    except ImproperlyConfigured as error:
        hint = "Name a function that takes a request and a job, and returns a bool."
        return [Error(str(error), hint=hint, id="pgjobs.E014")]
    return []


@register(TAG)
def check_schedules(**kwargs) -> list[CheckMessage]:
    """Check that schedules have names of their own, and arguments that fit."""
    if any(problems()):
        return []  # PGJOBS says how large arguments may be
    found: list[CheckMessage] = []
    for name, declared in sorted(schedules.clashes().items()):
        tasks = ", ".join(sorted(each.task.name for each in declared))
        message = f"{len(declared)} schedules have the name {name!r}, of tasks {tasks}."
        hint = "Give one of them another name: @schedule(name=...)."
        found.append(Error(message, hint=hint, id="pgjobs.E020"))
    for each in schedules.declarations():
        try:
            each.values  # noqa: B018  (binds the arguments)
        except InvalidArguments as error:
            message = f"Schedule {each.name!r}: {error}"
            hint = "Give them by @schedule(arguments={...}), or give them defaults."
            found.append(Error(message, hint=hint, obj=each.task, id="pgjobs.E021"))
        except InvalidTask:
            continue  # check_tasks reports it
    return found


@register(TAG)
def check_events(**kwargs) -> list[CheckMessage]:
    """Check that events are kept as long as a task may still subscribe to them."""
    if any(problems()) or settings.EVENT_RETENTION is None:
        return []
    if settings.EVENT_RETENTION >= settings.UNHANDLED_EVENT_GRACE:
        return []
    message = (
        f"PGJOBS['EVENT_RETENTION'] is {settings.EVENT_RETENTION:g} s, less than "
        f"PGJOBS['UNHANDLED_EVENT_GRACE'], which is {settings.UNHANDLED_EVENT_GRACE:g}."
    )
    hint = "Events without a handler would be deleted before one can appear."
    return [Error(message, hint=hint, id="pgjobs.E022")]


@register(TAG, "database")
def check_server(databases=None, **kwargs) -> list[CheckMessage]:
    """Check the server itself: only with `check --database`, and by migrate."""
    if any(problems()) or settings.DATABASE not in (databases or ()):
        return []
    connection = connections[settings.DATABASE]
    if connection.vendor != "postgresql":
        return []
    connection.ensure_connection()
    return [
        *old_server(connection),
        *isolation_of_server(connection),
        *makers_of_functions(connection),
    ]


def old_server(connection) -> Iterator[CheckMessage]:
    version = connection.pg_version
    if version < SUPPORTED_SERVER:
        message = (
            f"The server is PostgreSQL {version // 10000}; pgjobs supports 14 and up."
        )
        yield Warning(message, id="pgjobs.W013")


def isolation_of_server(connection) -> Iterator[CheckMessage]:
    """Find a default of the server, the database or the role; Django shows none."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        (level,) = cursor.fetchone()
    if level != "read committed":
        yield Error(
            f"Transactions on the database {connection.alias!r} begin as {level}, with "
            "which jobs that two change at a time raise errors.",
            hint="Set default_transaction_isolation to 'read committed' for the "
            "database or the role.",
            id="pgjobs.E015",
        )


# Roles that may make functions and operators where a worker's session looks for them.
MAKERS = """
SELECT nspname, string_agg(rolname, ', ' ORDER BY rolname)
FROM pg_namespace JOIN pg_roles
    ON has_schema_privilege(pg_roles.oid, pg_namespace.oid, 'CREATE')
WHERE nspname = ANY (current_schemas(false))
    AND NOT rolsuper AND rolname <> current_user AND rolname NOT LIKE 'pg\\_%'
    AND NOT pg_has_role(pg_roles.oid, nspowner, 'USAGE')
GROUP BY nspname ORDER BY nspname
"""


def makers_of_functions(connection) -> Iterator[CheckMessage]:
    with connection.cursor() as cursor:
        cursor.execute(MAKERS)
        rows = cursor.fetchall()
    for schema, roles in rows:
        yield Warning(
            f"Other roles may create objects in the schema {schema!r}: "
            f"{shorten(roles, 200, placeholder=' ...')}. An operator that one of them "
            "makes there may run with the rights of a worker.",
            hint=f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, or from these roles.",
            id="pgjobs.W023",
        )

"""What projects rely upon, as text: `python -m tests.surface`.

It needs DJANGO_SETTINGS_MODULE=tests.settings, PYTHONPATH=example_project, and a
database of its own in PGJOBS_TEST_DATABASE.

Someone who moves code compares what this prints before and after: public names with
their signatures, the migrated database, the order of `dumpdata`, addresses,
permissions, commands, loggers, templates.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import django
from django.apps import apps
from django.core.management import get_commands, load_command_class
from django.core.serializers import sort_dependencies
from django.db import connection

PACKAGE = Path(__file__).resolve().parent.parent / "pgjobs"
PUBLIC = [
    "pgjobs",
    "pgjobs.models",
    "pgjobs.testing",
    "pgjobs.exceptions",
    "pgjobs.signals",
    "pgjobs.fields",
    "pgjobs.views",
    "pgjobs.backends",
    "pgjobs.contrib.prometheus",
    "pgjobs.contrib.otel",
    "pgjobs.contrib.sentry",
]
# Where a name is defined is no promise.
UNSTABLE = re.compile(r" at 0x[0-9a-f]+|\b(?:pgjobs|collections|typing)\.(?:\w+\.)*")
CATALOGUE = """
SELECT format('table %s: %s', relname, obj_description(oid, 'pg_class'))
FROM pg_class WHERE relname ~ '^pgjobs_' AND relkind IN ('r', 'v', 'S')
UNION ALL SELECT format('column %s.%s: %s', attrelid::regclass, attname, concat_ws(
    ' ', format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid),
    attidentity, col_description(attrelid, attnum), attacl
))
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid::regclass::text ~ '^pgjobs_' AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT format('rights of %s: %s', oid::regclass, relacl)
FROM pg_class WHERE relname ~ '^pgjobs_' AND relkind IN ('r', 'v', 'S')
UNION ALL SELECT format(
    'function %s: %s %s', oid::regprocedure, pg_get_functiondef(oid), proacl
)
FROM pg_proc WHERE proname ~ '^pgjobs_' AND prokind IN ('f', 'p')
UNION ALL SELECT format('trigger %s: %s', tgname, pg_get_triggerdef(oid))
FROM pg_trigger WHERE tgname ~ '^pgjobs_' AND NOT tgisinternal
UNION ALL SELECT format('constraint %s: %s', conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE conrelid::regclass::text ~ '^pgjobs_' AND contype <> 'n'
UNION ALL SELECT format('index %s: %s', indexname, indexdef)
FROM pg_indexes WHERE tablename ~ '^pgjobs_'
ORDER BY 1
"""


def names() -> Iterator[str]:
    for path in PUBLIC:
        module = importlib.import_module(path)
        listed = getattr(module, "__all__", None)
        for name in sorted(listed or (n for n in dir(module) if n[0] != "_")):
            yield from described(f"{path}.{name}", getattr(module, name))


def described(name: str, value: object) -> Iterator[str]:
    """Yield a name with its signature, and the public names that a class has itself."""
    if inspect.ismodule(value):
        return
    if not callable(value):
        yield f"{name}: {type(value).__name__}"
        return
    yield f"{name}{signature(value)}"
    if inspect.isclass(value) and value.__module__.startswith("pgjobs"):
        for key in sorted({key for base in own_bases(value) for key in vars(base)}):
            if not key.startswith("_"):
                member = inspect.getattr_static(value, key)
                yield f"{name}.{key}{signature(member)}"


def own_bases(value: type) -> Iterator[type]:
    return (base for base in value.__mro__ if base.__module__.startswith("pgjobs"))


def signature(value: object) -> str:
    value = getattr(value, "__func__", getattr(value, "fget", value))
    try:
        return UNSTABLE.sub("", str(inspect.signature(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def database() -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE)
        yield from (text for (text,) in cursor)


def models() -> Iterator[str]:
    config = apps.get_app_config("pgjobs")
    for model in sort_dependencies([(config, None)]):
        yield f"dumped: {model._meta.label}"
    for model in config.get_models():
        for codename, _ in [
            *((f"{act}_{model._meta.model_name}", "") for act in permissions_of(model)),
            *model._meta.permissions,
        ]:
            yield f"permission: {codename}"


def permissions_of(model: type) -> tuple[str, ...]:
    return model._meta.default_permissions  # type: ignore[attr-defined]


def addresses() -> Iterator[str]:
    from django.contrib import admin

    urls = importlib.import_module("pgjobs.urls")
    patterns = list(urls.urlpatterns)
    for model, its_admin in sorted(
        admin.site._registry.items(), key=lambda pair: pair[0]._meta.label
    ):
        if model._meta.app_label == "pgjobs":
            patterns += its_admin.get_urls()
    for pattern in patterns:
        yield f"address: {pattern.pattern} {getattr(pattern, 'name', None)}"


def commands() -> Iterator[str]:
    for name, app in sorted(get_commands().items()):
        if app == "pgjobs":
            parser = load_command_class(app, name).create_parser("manage.py", name)
            yield f"command {name}:\n{parser.format_help()}"


def files() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("templates/**/*.*")):
        yield f"template: {str(path).partition('templates/')[2]}"
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    loggers = {
        name for text in texts for name in re.findall(r'getLogger\("([^"]+)"\)', text)
    }
    yield from (f"logger: {name}" for name in sorted(loggers))


def main() -> None:
    django.setup()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    for part in (names, database, models, addresses, commands, files):
        sys.stdout.writelines(f"{line}\n" for line in part())


if __name__ == "__main__":
    main()

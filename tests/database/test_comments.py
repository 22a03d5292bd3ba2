"""Comments: the database itself says what each table and column means."""

import pytest
from django.apps import apps
from django.db import connection

from tests.actors import execute
from tests.documents.examples import ROOT

MODELS = list(apps.get_app_config("pgjobs").get_models())
TABLES = "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class"
COLUMNS = """
SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped
"""


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_database_says_what_each_table_and_column_means(model):
    table = model._meta.db_table
    assert model._meta.db_table_comment.endswith(".")
    assert dict(execute(TABLES))[table] == model._meta.db_table_comment
    meant = {each.column: each.db_comment for each in model._meta.concrete_fields}
    assert all(comment and comment.endswith(".") for comment in meant.values())
    assert dict(execute(COLUMNS, {"table": table})) == meant


@pytest.mark.parametrize("model", MODELS)
def test_reference_says_what_each_column_means(model, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from generated_tables import table

    page = "\n".join(table(model))
    assert model._meta.db_table_comment in page
    for field in model._meta.concrete_fields:
        assert f"| `{field.column}` | {field.db_type(connection)}" in page
        assert f"| {field.db_comment} |" in page


@pytest.mark.parametrize("model", MODELS)
def test_no_comment_is_warned_of_where_the_database_keeps_none(model, monkeypatch):
    """Projects with such a database migrate it: see test_migrations.py."""
    monkeypatch.setattr(connection.features, "supports_comments", False)
    assert model.check(databases=["default"]) == []

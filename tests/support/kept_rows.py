"""Keep the permissions and content types of the models, which no test changes.

Django deletes them after each test that commits, and stores them again. That took a
third of the time of such tests.
"""

from django.contrib.auth.management import create_permissions
from django.contrib.contenttypes.management import create_contenttypes
from django.db.models.signals import post_migrate

TABLES = ("auth_permission", "django_content_type")


def install() -> None:
    uid = "django.contrib.auth.management.create_permissions"
    assert post_migrate.disconnect(dispatch_uid=uid)
    assert post_migrate.disconnect(create_contenttypes)
    post_migrate.connect(create_after_migration)


def create_after_migration(**how) -> None:
    """Store what new models need. After a test, there are no `apps` in `how`."""
    if "apps" in how:
        create_contenttypes(**how)
        create_permissions(**how)

"""The admin's pages of each database: `DatabaseSite`."""

import re
from functools import cache

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import Client
from django.urls import path

from pgjobs.admin import DatabaseSite, QueueAdmin
from pgjobs.features import FEATURES
from pgjobs.models import AuditEntry, Job, Queue
from tests.operators import ALL_PERMISSIONS, messages_of, operator, text_of
from tests.tasks import noop

QUEUES = {"default": "pacific", "eu": "atlantic"}

pytestmark = pytest.mark.django_db(databases=["default", "eu"])


@cache
def addresses():
    """Return those of a project that has given its second database a site."""
    return (path("admin/", admin.site.urls), path("eu/", DatabaseSite("eu").urls))


@pytest.fixture
def client(settings, db):
    settings.ROOT_URLCONF = addresses()
    return operator(*ALL_PERMISSIONS, "view_queue")


def failed_job(database: str, id: int, queue: str) -> Job:
    """Return a job that may have the id of another one in another database."""
    return Job.objects.using(database).create(
        id=id,
        task="tests.noop",
        queue_name=queue,
        status="FAILED",
        finished_at="2026-01-01T00:00Z",
    )


PAGES = ["", "700700/change/", *(["export.csv"] if "job_pages" in FEATURES else [])]


@pytest.mark.parametrize("page", PAGES)
def test_page_of_a_site_shows_the_jobs_of_its_database(client, page):
    for database, queue in QUEUES.items():
        failed_job(database, 700700, queue)
        noop.using(database=database, queue_name=queue).enqueue()
    shown = client.get(f"/eu/pgjobs/job/{page}").getvalue().decode()
    assert "atlantic" in shown
    assert "pacific" not in shown
    shown = client.get(f"/admin/pgjobs/job/{page}").getvalue().decode()
    assert "pacific" in shown
    assert "atlantic" not in shown


def test_button_acts_in_the_database_of_its_site(client):
    failed_job("default", 700700, "pacific")
    failed_job("eu", 700700, "atlantic")
    client.post("/eu/pgjobs/job/retry/700700/")
    assert Job.objects.using("eu").get().status == "READY"
    assert Job.objects.using("default").get().status == "FAILED"
    assert AuditEntry.objects.using("eu").get().act == "retry"
    assert not AuditEntry.objects.using("default").exists()


def test_selection_is_of_the_database_of_its_site(client):
    failed_job("default", 700700, "pacific")
    failed_job("eu", 700700, "atlantic")
    form = {"action": "delete_selected", "_selected_action": "700700", "confirmed": "1"}
    client.post("/eu/pgjobs/job/", form)
    assert not Job.objects.using("eu").exists()
    assert Job.objects.using("default").exists()


@pytest.mark.parametrize("database", ["default", "eu"])
def test_new_row_goes_where_the_project_has_its_queue(client, settings, database):
    settings.PGJOBS = {"DATABASE": database}
    client.force_login(User.objects.create_superuser("ada"))
    client.post("/admin/pgjobs/queue/add/", {"name": "mail", "note": ""})
    for alias in ("default", "eu"):
        is_there = alias == database
        assert Queue.objects.using(alias).filter(name="mail").exists() == is_there


def test_row_is_added_to_the_database_of_its_site(client):
    client.force_login(User.objects.create_superuser("ada"))
    client.post("/eu/pgjobs/queue/add/", {"name": "mail", "note": ""})
    assert Queue.objects.using("eu").filter(name="mail").exists()
    assert not Queue.objects.using("default").filter(name="mail").exists()


def test_lists_lead_to_the_same_page_of_each_database(client):
    for page in ("job/", "queue/"):
        shown = text_of(client.get(f"/eu/pgjobs/{page}"))
        assert f'<a href="/eu/pgjobs/{page}" aria-current="page">eu</a>' in shown
        assert f'<a href="/admin/pgjobs/{page}">default</a>' in shown
        assert f'<a href="/eu/pgjobs/{page}">eu</a>' in text_of(
            client.get(f"/admin/pgjobs/{page}")
        )


@pytest.mark.parametrize("page", ["job/", "job/700700/change/", "queue/"])
def test_all_other_links_stay_in_the_site(client, page):
    failed_job("eu", 700700, "atlantic")
    shown = text_of(client.get(f"/eu/pgjobs/{page}"))
    others = set(re.findall('href="(/admin/[^"]*)"', shown))
    assert others <= {f"/admin/pgjobs/{page}"}  # the switch
    assert shown.count('href="/eu/') > 5


class CountingAdmin(QueueAdmin):
    list_display = ("name", "jobs")

    def jobs(self, queue):
        return f"{Job.objects.count()} counted"


def test_columns_of_the_project_read_from_the_database_of_the_site(client, settings):
    site = DatabaseSite("eu")
    site.unregister(Queue)
    site.register(Queue, CountingAdmin)
    settings.ROOT_URLCONF = (path("admin/", admin.site.urls), path("eu/", site.urls))
    client.force_login(User.objects.create_superuser("ada"))
    Queue.objects.using("eu").get_or_create(name="atlantic")
    failed_job("eu", 700700, "atlantic")
    assert "1 counted" in text_of(client.get("/eu/pgjobs/queue/"))


def test_project_with_one_site_shows_no_switch(client, settings):
    settings.ROOT_URLCONF = addresses()[:1]
    shown = text_of(client.get("/admin/pgjobs/job/"))
    assert 'aria-label="Database"' not in shown


def test_each_page_of_a_site_names_its_database(client):
    failed_job("eu", 700700, "atlantic")
    for page in ("", "pgjobs/", "pgjobs/job/", "pgjobs/job/700700/change/"):
        assert "Jobs of eu" in text_of(client.get(f"/eu/{page}"))


def test_site_needs_the_permissions_of_the_admin(settings):
    settings.ROOT_URLCONF = addresses()
    assert Client().get("/eu/pgjobs/job/").status_code == 302
    assert operator("view_queue").get("/eu/pgjobs/job/").status_code == 403


def test_replica_is_shown_and_refuses_acts(client):
    failed_job("eu", 700700, "atlantic")
    with connections["eu"].cursor() as cursor:
        cursor.execute("SET LOCAL transaction_read_only = on")
    assert "atlantic" in text_of(client.get("/eu/pgjobs/job/700700/change/"))
    response = client.post("/eu/pgjobs/job/retry/700700/")
    assert messages_of(response) == [
        "This database is a replica. Nothing can be changed here."
    ]


def test_unknown_database_has_no_site():
    with pytest.raises(ImproperlyConfigured, match="DATABASES has no 'us'"):
        DatabaseSite("us")

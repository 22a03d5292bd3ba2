"""The groups that a command makes: members of one look, of the other also act."""

from io import StringIO

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client

from pgjobs.features.operating.groups import OPERATOR
from tests.operators import LIST, make_job, page_of, status_of, text_of, url_of

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("jobgroups", *arguments, stdout=output)
    return output.getvalue()


def member_of(name: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name=name))
    client = Client()
    client.force_login(user)
    return client


def test_viewer_sees_jobs_but_neither_arguments_nor_buttons():
    run()
    job = make_job(kwargs={"order_id": 87})
    client = member_of("pgjobs viewer")
    assert client.get(LIST).status_code == 200
    assert "order_id" not in text_of(client.get(page_of(job)))
    assert client.post(url_of("retry", job)).status_code == 403
    assert client.get("/admin/pgjobs/worker/").status_code == 200


def test_operator_acts_and_does_not_delete():
    run()
    job = make_job(kwargs={"order_id": 87})
    client = member_of("pgjobs operator")
    assert "order_id" in text_of(client.get(page_of(job)))
    assert client.get(f"{LIST}{job.pk}/delete/").status_code == 403
    client.post(url_of("retry", job))
    assert status_of(job) == "READY"


def test_groups_are_brought_up_to_date_and_keep_what_they_have():
    assert run("--viewer", "looks") == (
        "Made the group 'looks'.\nMade the group 'pgjobs operator'.\n"
    )
    group = Group.objects.get(name="looks")
    more = Permission.objects.get(codename="delete_job")
    group.permissions.set([more])
    assert "Brought up to date the group 'looks'." in run("--viewer", "looks")
    assert more in group.permissions.all()
    assert group.permissions.count() > 1


def test_every_permission_of_the_groups_is_known():
    known = Permission.objects.filter(content_type__app_label="pgjobs")
    assert set(OPERATOR) <= set(known.values_list("codename", flat=True))

"""Themes replace Django's templates, and expect a form where Django has one."""

import pytest
from django.test import override_settings
from django.urls import reverse

from tests import settings as test_settings
from tests.operators import make_job, text_of

pytestmark = pytest.mark.django_db

# As django-unfold has it: what it adds stands outside of the block of the content.
FORM = """
{% extends "admin/base_site.html" %}{% load admin_modify %}
{% block footer %}{% submit_row %}{% endblock %}
"""


@pytest.fixture
def theme(tmp_path):
    (tmp_path / "admin").mkdir()
    (tmp_path / "admin/change_form.html").write_text(FORM)
    (engine,) = test_settings.TEMPLATES
    with override_settings(TEMPLATES=[{**engine, "DIRS": [str(tmp_path)]}]):
        yield


def pages():
    job = make_job("FAILED")
    yield reverse("admin:pgjobs_job_retry", args=(job.pk,))
    yield reverse("admin:pgjobs_job_delete", args=(job.pk,))


def test_pages_of_our_own_need_nothing_of_a_themes_form(admin_client, theme):
    check_that_they_show(admin_client, pages())


def check_that_they_show(client, pages) -> None:
    for page in pages:
        response = client.get(page)
        assert response.status_code == 200, page
        assert 'id="content-main"' in text_of(response), page


def test_pages_of_our_own_lead_back_to_their_list(admin_client):
    job = make_job("FAILED")
    page = text_of(admin_client.get(reverse("admin:pgjobs_job_retry", args=(job.pk,))))
    breadcrumbs = page.partition('class="breadcrumbs"')[2][:900]
    assert reverse("admin:pgjobs_job_changelist") in breadcrumbs
    assert reverse("admin:app_list", args=("pgjobs",)) in breadcrumbs
    assert str(job.pk) in breadcrumbs

"""Themes replace Django's templates, and expect a form where Django has one."""

import pytest
from django.test import override_settings
from django.urls import reverse

from tests import settings as test_settings
from tests.operators import make_job, page_of, text_of

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


# Also django-jazzmin: what it adds to the page stands where Django has its buttons.
BUTTONS = """
{% extends "admin/base_site.html" %}{% load admin_modify %}
{% block content %}
{% block field_sets %}{% endblock %}
{% block submit_buttons_bottom %}{% submit_row %}
{% block object-tools %}{% block object-tools-items %}{% endblock %}{% endblock %}
{% endblock %}
{% endblock %}
"""


def test_page_of_a_job_has_its_acts_where_a_theme_puts_its_buttons(
    admin_client, theme, tmp_path
):
    (tmp_path / "admin/change_form.html").write_text(BUTTONS)
    job = make_job("FAILED")
    page = text_of(admin_client.get(page_of(job)))
    assert reverse("admin:pgjobs_job_retry", args=(job.pk,)) in page
    assert reverse("admin:pgjobs_job_delete", args=(job.pk,)) in page


def test_list_has_its_acts_where_a_theme_shows_them_before_the_rows(
    admin_client, theme, tmp_path
):
    above = (
        '{% extends "admin/base_site.html" %}{% load admin_list %}{% block content %}'
    )
    acts = "{% if actions_on_top %}{% admin_actions %}{% endif %}{% endblock %}"
    (tmp_path / "admin/change_list.html").write_text(above + acts)
    make_job("FAILED")
    page = text_of(admin_client.get(reverse("admin:pgjobs_job_changelist")))
    assert 'value="retry_selected"' in page


def test_pages_of_our_own_lead_back_to_their_list(admin_client):
    job = make_job("FAILED")
    page = text_of(admin_client.get(reverse("admin:pgjobs_job_retry", args=(job.pk,))))
    breadcrumbs = page.partition('class="breadcrumbs"')[2][:900]
    assert reverse("admin:pgjobs_job_changelist") in breadcrumbs
    assert reverse("admin:app_list", args=("pgjobs",)) in breadcrumbs
    assert str(job.pk) in breadcrumbs

"""The buttons: every fault of django-admin-actions, and what people do with forms."""

import re

import pytest
from admin_actions.admin import ActionsModelAdmin
from django.contrib import admin
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import path

from pgjobs.admin import JobAdmin
from pgjobs.admin.acts import BULK_ACTIONS, BUTTONS
from pgjobs.models import Job
from tests.actors import execute
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    STATUSES,
    make_job,
    messages_of,
    operator,
    page_of,
    status_of,
    text_of,
    url_of,
)

pytestmark = pytest.mark.django_db

# Another site with the jobs, and another model whose admin has a method of the same
# name as ours would have without its prefix.
other_site = admin.AdminSite(name="other")
other_site.register(Job, JobAdmin)
clashing_site = admin.AdminSite(name="clashing")


class GroupAdmin(ActionsModelAdmin):
    actions_row = ("retry",)

    def retry(self, request, pk):
        raise AssertionError("the button of another model")


clashing_site.register(Group, GroupAdmin)
clashing_site.register(Job, JobAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("other/", other_site.urls),
    path("clashing/", clashing_site.urls),
]

VERBS = [act.verb for act in BUTTONS] + ["delete"]
PERMISSIONS = {
    "run_again": "add_job",
    "retry": "retry_job",
    "run_now": "run_job_now",
    "cancel": "cancel_job",
    "fail": "fail_job",
    "succeed": "fail_job",
    "delete": "delete_job",
}
# A status that the act changes, and what it becomes.
EFFECTS = {
    "run_again": ("SUCCESSFUL", "SUCCESSFUL"),
    "retry": ("FAILED", "READY"),
    "run_now": ("SCHEDULED", "READY"),
    "cancel": ("READY", "CANCELLED"),
    "fail": ("READY", "FAILED"),
    "succeed": ("READY", "SUCCESSFUL"),
    "delete": ("READY", None),
}


def address(verb, job):
    return f"{LIST}{job.pk}/delete/" if verb == "delete" else url_of(verb, job)


def snapshot():
    return list(Job.objects.order_by("pk").values())


def buttons_in(response) -> set[tuple[str, str]]:
    found = re.findall(
        r"/job/(retry|run_again|run_now|cancel|fail|succeed)/(\d+)/", text_of(response)
    )
    return set(found)


@pytest.fixture
def everything():
    return operator(*ALL_PERMISSIONS)


# Nothing but a POST has an effect


@pytest.mark.parametrize("verb", VERBS)
def test_a_get_shows_a_confirmation_page_and_changes_nothing(verb, everything):
    job = make_job(EFFECTS[verb][0])
    before = snapshot()
    response = everything.get(address(verb, job))
    assert response.status_code == 200
    assert "csrfmiddlewaretoken" in text_of(response)
    assert "no-store" in response["Cache-Control"]
    assert snapshot() == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("query", ["?confirmed=yes", "?post=yes&q=x%26confirm=1"])
def test_parameters_of_a_get_are_no_confirmation(verb, query, everything):
    job = make_job(EFFECTS[verb][0])
    before = snapshot()
    assert everything.get(address(verb, job) + query).status_code == 200
    assert snapshot() == before


@pytest.mark.parametrize("method", ["head", "options", "put", "patch", "delete"])
def test_other_methods_change_nothing(method, everything):
    job = make_job("FAILED")
    response = getattr(everything, method)(url_of("retry", job))
    assert response.status_code == (200 if method == "head" else 405)
    assert status_of(job) == "FAILED"


@pytest.mark.parametrize(
    "headers", [{"sec-purpose": "prefetch"}, {"purpose": "prefetch"}]
)
def test_a_prefetch_changes_nothing(headers, everything):
    job = make_job("FAILED")
    everything.get(url_of("retry", job), headers=headers)
    assert status_of(job) == "FAILED"


@pytest.mark.parametrize("verb", VERBS)
def test_a_post_without_token_is_refused(verb):
    client = operator(*ALL_PERMISSIONS, enforce_csrf_checks=True)
    job = make_job(EFFECTS[verb][0])
    assert client.post(address(verb, job)).status_code == 403
    assert status_of(job) == EFFECTS[verb][0]


def test_a_post_with_the_token_of_the_page_is_accepted():
    client = operator(*ALL_PERMISSIONS, enforce_csrf_checks=True)
    job = make_job("FAILED")
    page = text_of(client.get(url_of("retry", job)))
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    response = client.post(url_of("retry", job), {"csrfmiddlewaretoken": token})
    assert response.status_code == 302
    assert status_of(job) == "READY"


@pytest.mark.parametrize("verb", VERBS)
def test_a_post_changes_the_job(verb, everything):
    before, after = EFFECTS[verb]
    job = make_job(before)
    other = make_job(before)
    response = everything.post(address(verb, job))
    assert response.status_code == 302
    assert Job.objects.filter(pk=job.pk).values_list("status").first() == (
        None if after is None else (after,)
    )
    assert status_of(other) == before


# Permissions


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["get", "post"])
def test_anonymous_people_are_sent_to_the_login(verb, method, db):
    job = make_job(EFFECTS[verb][0])
    response = getattr(Client(), method)(address(verb, job))
    assert response.status_code == 302
    assert "/login/" in response["Location"]
    assert status_of(job) == EFFECTS[verb][0]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    "permissions",
    [
        (),
        ("view_job",),
        ("view_job", "change_job", "add_job", "view_job_arguments"),
        "all others",
        "not view",
    ],
)
def test_each_act_needs_its_own_permission_and_that_to_view(verb, method, permissions):
    if permissions == "all others":
        permissions = set(ALL_PERMISSIONS) - {PERMISSIONS[verb]}
    elif permissions == "not view":
        permissions = {PERMISSIONS[verb]}
    else:
        permissions = set(permissions) - {PERMISSIONS[verb]}
    client = operator(*permissions)
    job = make_job(EFFECTS[verb][0])
    assert getattr(client, method)(address(verb, job)).status_code == 403
    assert status_of(job) == EFFECTS[verb][0]


@pytest.mark.parametrize("verb", VERBS)
def test_the_act_and_view_permissions_suffice(verb):
    client = operator("view_job", PERMISSIONS[verb])
    job = make_job(EFFECTS[verb][0])
    assert client.get(address(verb, job)).status_code == 200
    assert client.post(address(verb, job)).status_code == 302


def test_user_that_may_only_view_sees_no_buttons_and_no_actions():
    client = operator("view_job")
    jobs = [make_job(status) for status in STATUSES]
    response = client.get(LIST)
    assert response.status_code == 200
    assert not buttons_in(response)
    assert "actions_holder" not in text_of(response)
    assert 'name="action"' not in text_of(response)
    for job in jobs:
        page = client.get(page_of(job))
        assert page.status_code == 200
        assert not buttons_in(page)
        assert "deletelink" not in text_of(page)
        assert "_save" not in text_of(page)


def test_staff_without_permissions_see_nothing():
    client = operator()
    job = make_job()
    assert client.get(LIST).status_code == 403
    assert client.get(page_of(job)).status_code == 403


def test_buttons_follow_permissions():
    client = operator("view_job", "cancel_job")
    job = make_job("READY")
    assert buttons_in(client.get(LIST)) == {("cancel", str(job.pk))}
    assert buttons_in(client.get(page_of(job))) == {("cancel", str(job.pk))}


OFFERED = {
    "READY": {"cancel", "fail", "succeed"},
    "SCHEDULED": {"run_now", "cancel", "fail", "succeed"},
    "WAITING": {"cancel", "fail", "succeed"},
    "RUNNING": {"cancel", "fail", "succeed"},
    "SUCCESSFUL": {"run_again", "retry"},
    "FAILED": {"retry"},
    "CANCELLED": {"retry"},
}


@pytest.mark.parametrize("status", STATUSES)
def test_buttons_follow_the_status(status, everything):
    job = make_job(status)
    expected = {(verb, str(job.pk)) for verb in OFFERED[status]}
    harmful = {(verb, str(job.pk)) for verb in ("fail", "succeed")}
    assert buttons_in(everything.get(LIST)) == expected - harmful
    assert buttons_in(everything.get(page_of(job))) == expected


def test_a_job_that_was_asked_to_cancel_is_not_asked_again(everything):
    job = make_job("RUNNING")
    Job.objects.filter(pk=job.pk).cancel()
    assert ("cancel", str(job.pk)) not in buttons_in(everything.get(page_of(job)))


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("act", BULK_ACTIONS, ids=lambda act: act.verb)
def test_an_act_is_offered_where_it_works_and_only_there(act, status, everything):
    job = make_job(status)
    offered = act.is_offered(job)
    changed, skipped = act.run(Job.objects.filter(pk=job.pk))
    assert (changed, skipped) == ((1, 0) if offered else (0, 1))


# Addresses


def test_buttons_of_another_site_stay_there(settings):
    settings.ROOT_URLCONF = __name__
    client = operator(*ALL_PERMISSIONS)
    job = make_job("FAILED")
    for url in ["/other/pgjobs/job/", f"/other/pgjobs/job/{job.pk}/change/"]:
        page = text_of(client.get(url))
        assert f'href="/other/pgjobs/job/retry/{job.pk}/' in page
        assert 'href="/admin/' not in page
    confirmation = client.get(f"/other/pgjobs/job/retry/{job.pk}/")
    assert "/admin/pgjobs" not in text_of(confirmation)
    response = client.post(f"/other/pgjobs/job/retry/{job.pk}/")
    assert response["Location"] == "/other/pgjobs/job/"
    assert status_of(job) == "READY"


def test_a_method_of_the_same_name_in_another_admin_takes_no_clicks(settings):
    settings.ROOT_URLCONF = __name__
    client = operator(*ALL_PERMISSIONS)
    job = make_job("FAILED")
    page = text_of(client.get("/clashing/pgjobs/job/"))
    assert f'href="/clashing/pgjobs/job/retry/{job.pk}/"' in page
    client.post(f"/clashing/pgjobs/job/retry/{job.pk}/")
    assert status_of(job) == "READY"


def test_the_names_of_buttons_are_prefixed_and_their_paths_differ():
    jobs = admin.site.get_model_admin(Job)
    names = {*jobs.actions_row, *jobs.actions_detail}
    assert names and all(name.startswith("pgjobs_job_") for name in names)
    paths = {getattr(jobs, name).url_path for name in names}
    assert len(paths) == len(names)


def test_the_package_adds_no_list_buttons():
    assert not admin.site.get_model_admin(Job).actions_list


def test_list_display_may_be_a_list(rf, admin_user):
    class ListAdmin(JobAdmin):
        list_display = ["id"]

    request = rf.get(LIST)
    request.user = admin_user
    columns = ListAdmin(Job, admin.site).get_list_display(request)
    assert columns[0] == "id"
    assert callable(columns[-1])


@pytest.mark.parametrize(
    "id",
    [
        "abc",
        "1_2F",
        "-1",
        "99999999999999999999",
        "9" * 5000,
        "%00",
        "🙂",
        "1.5",
        "NaN",
        "0",
        "%27%22%3E%3Cscript%3E",
        "1%2F2",
    ],
)
@pytest.mark.parametrize("pattern", ["{}/change/", "{}/delete/", "{}/history/"])
def test_a_bad_id_leads_away_with_a_message(id, pattern, admin_client):
    response = admin_client.get(LIST + pattern.format(id))
    assert response.status_code in (302, 404)
    if response.status_code == 302:
        assert messages_of(response) or "/change/" in response["Location"]


@pytest.mark.parametrize(
    "id", ["abc", "-1", "0", "99999999999999999999", "9" * 5000, "%00", "🙂"]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_button_of_a_bad_id_is_not_found(id, method, admin_client):
    response = getattr(admin_client, method)(url_of("retry", id), follow=True)
    assert response.status_code == 404 or response.redirect_chain


def test_a_post_for_a_job_that_is_gone_is_not_found(everything):
    job = make_job()
    Job.objects.all().delete()
    assert everything.post(url_of("retry", job)).status_code == 404


# The way back


def test_the_row_s_button_leads_back_to_the_filtered_list(everything):
    job = make_job("FAILED")
    query = "status=FAILED&task=tests.noop&q=tests"
    page = text_of(everything.get(f"{LIST}?{query}"))
    href = re.search(r'href="([^"]+/retry/[^"]+)"', page)[1].replace("&amp;", "&")
    response = everything.post(href)
    assert response["Location"] == f"{LIST}?{query}"
    assert status_of(job) == "READY"


def test_the_page_s_button_leads_back_to_the_page(everything):
    job = make_job("FAILED")
    page = text_of(
        everything.get(f"{page_of(job)}?_changelist_filters=status%3DFAILED")
    )
    href = re.search(r'href="([^"]+/retry/[^"]+)"', page)[1].replace("&amp;", "&")
    response = everything.post(href)
    assert response["Location"].startswith(page_of(job))
    assert "_changelist_filters=status%3DFAILED" in response["Location"]


@pytest.mark.parametrize(
    "query",
    [
        "next=//evil.example/",
        "_changelist_filters=%26next%3D//evil.example/",
        "_changelist_filters=//evil.example",
        "_changelist_filters=javascript:alert(1)",
        "from=//evil.example",
        "from=javascript:alert(1)",
    ],
)
def test_the_way_back_never_leaves_the_admin(query, everything):
    job = make_job("FAILED")
    confirmation = text_of(everything.get(f"{url_of('retry', job)}?{query}"))
    assert 'href="//evil' not in confirmation
    assert 'href="javascript' not in confirmation
    response = everything.post(f"{url_of('retry', job)}?{query}")
    assert response["Location"].split("?")[0] == LIST


def test_kept_filters_are_encoded_and_cannot_add_parameters(everything):
    make_job("FAILED", task='tests."><script>')
    response = everything.get(f"{LIST}?q=tests.%22%3E%3Cscript%3E")
    assert '"><script>' not in text_of(response)
    make_job("FAILED", task="tests&from=page")
    response = everything.get(f"{LIST}?q=tests%26from%3Dpage&status=FAILED")
    href = re.search(r'href="([^"]+/retry/[^"]+)"', text_of(response))[1]
    assert "from=page" not in href
    assert "from%253Dpage" in href


# What happens between the page and its POST


def test_the_second_of_two_posts_changes_nothing_and_says_so(everything):
    job = make_job("FAILED")
    everything.post(url_of("retry", job))
    life = Job.objects.get(pk=job.pk).life
    response = everything.post(url_of("retry", job))
    assert messages_of(response)[-1].endswith("was not changed: its status is Ready.")
    assert Job.objects.get(pk=job.pk).life == life
    assert LogEntry.objects.count() == 1


def test_a_job_that_changed_since_the_page_is_left_alone(everything):
    job = make_job("READY")
    everything.get(url_of("cancel", job))
    Job.objects.filter(pk=job.pk).succeed(42)
    response = everything.post(url_of("cancel", job))
    assert messages_of(response) == [
        f"tests.noop #{job.pk} was not changed: its status is Successful."
    ]
    assert status_of(job) == "SUCCESSFUL"


def test_the_page_of_an_act_that_is_impossible_has_no_form(everything):
    job = make_job("READY")
    page = text_of(everything.get(url_of("retry", job)))
    assert "Nothing would happen" in page
    assert "csrfmiddlewaretoken" not in page.split('id="content-main"')[1]


def test_a_running_job_is_not_deleted(everything):
    job = make_job("RUNNING")
    assert "deletelink" not in text_of(everything.get(page_of(job)))
    assert "Nothing would happen" in text_of(everything.get(address("delete", job)))
    response = everything.post(address("delete", job))
    assert status_of(job) == "RUNNING"
    assert messages_of(response)[0].endswith("its status is Running.")
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("verb", ["fail", "succeed"])
def test_the_page_says_that_the_body_of_a_running_job_may_go_on(verb, everything):
    running, ready = make_job("RUNNING"), make_job("READY")
    warning = "its task may still run for a while"
    assert warning in text_of(everything.get(url_of(verb, running)))
    assert warning not in text_of(everything.get(url_of(verb, ready)))


# What operators may say


def test_a_reason_is_stored_and_logged(everything):
    job = make_job("READY")
    everything.post(url_of("cancel", job), {"reason": "Sent by mistake"})
    assert Job.objects.get(pk=job.pk).reason == "Sent by mistake"
    assert "Reason: Sent by mistake" in LogEntry.objects.get().change_message


@pytest.mark.parametrize("reason", ["x" * 1001, "a\0b"])
def test_a_bad_reason_is_an_error_of_the_form(reason, everything):
    job = make_job("READY")
    response = everything.post(url_of("fail", job), {"reason": reason})
    assert response.status_code == 200
    assert "errorlist" in text_of(response)
    assert status_of(job) == "READY"


def test_a_result_is_stored_as_json(everything):
    job = make_job("READY")
    everything.post(url_of("succeed", job), {"return_value": '{"pages": 3}'})
    assert Job.objects.get(pk=job.pk).return_value == {"pages": 3}


@pytest.mark.parametrize("empty", ["", "  ", "null"])
def test_an_empty_result_is_none(empty, everything):
    job = make_job("READY")
    everything.post(url_of("succeed", job), {"return_value": empty})
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", None)


@pytest.mark.parametrize(
    "result",
    [
        "{",
        "NaN",
        "1e400",
        '"\\u0000"',
        '"\\ud800"',
        "9" * 5000,
        "[" * 3000 + "]" * 3000,
        '"' + "x" * 1_000_000 + '"',
        "a\0b",
    ],
    ids=lambda text: text[:10],
)
def test_a_bad_result_is_an_error_of_the_form(result, everything):
    job = make_job("READY")
    response = everything.post(url_of("succeed", job), {"return_value": result})
    assert response.status_code == 200
    assert "errorlist" in text_of(response)
    assert status_of(job) == "READY"


# The log


def test_each_act_is_logged_with_its_user(everything):
    job = make_job("FAILED")
    everything.post(url_of("retry", job))
    entry = LogEntry.objects.get()
    assert entry.user == everything.user
    assert entry.object_id == str(job.pk)
    assert entry.action_flag == CHANGE
    assert entry.get_change_message() == f"Retried tests.noop #{job.pk}."
    history = text_of(everything.get(f"{LIST}{job.pk}/history/"))
    assert f"Retried tests.noop #{job.pk}." in history


def test_a_result_is_not_logged_where_others_could_read_it(everything):
    job = make_job("READY")
    everything.post(url_of("succeed", job), {"return_value": '{"token": "hunter2"}'})
    assert "hunter2" not in LogEntry.objects.get().change_message
    history = text_of(operator("view_job").get(f"{LIST}{job.pk}/history/"))
    assert f"Marked tests.noop #{job.pk} as successful." in history


def test_a_deletion_is_logged_as_one(everything):
    job = make_job("FAILED")
    everything.post(address("delete", job))
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id) == (DELETION, str(job.pk))


# Forms of Django


@pytest.mark.parametrize("data", [{}, {"_save": "1"}, {"_saveasnew": "1"}])
def test_the_form_of_a_job_cannot_be_posted(data, admin_client):
    job = make_job("FAILED")
    tampered = {"status": "READY", "lease_token": 7, "kwargs": "{}", **data}
    assert admin_client.post(page_of(job), tampered).status_code == 403
    assert status_of(job) == "FAILED"


def test_no_job_can_be_added(admin_client):
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}add/", {"task": "x"}).status_code == 403
    assert f"{LIST}add/" not in text_of(admin_client.get(LIST))


def test_other_models_keep_their_tools(admin_client):
    user = User.objects.get()
    assert "addlink" in text_of(admin_client.get("/admin/auth/user/"))
    page = text_of(admin_client.get(f"/admin/auth/user/{user.pk}/change/"))
    assert "historylink" in page


def test_retry_of_a_job_whose_key_is_taken_names_the_holder(everything):
    columns = {"unique_key": "key", "unique_for": "unfinished"}
    job = make_job("FAILED", **columns)
    holder = make_job("READY", **columns)
    response = everything.post(url_of("retry", job))
    assert messages_of(response) == [
        f"tests.noop #{job.pk} was not changed: job {holder.pk} holds its unique key."
    ]
    assert status_of(job) == "FAILED"


def test_deletion_says_that_another_table_refers_to_the_job(everything):
    job = make_job("SUCCESSFUL")
    execute("CREATE TABLE referring AS SELECT id FROM pgjobs_job")
    execute("ALTER TABLE referring ADD FOREIGN KEY (id) REFERENCES pgjobs_job")
    response = everything.post(f"{LIST}{job.pk}/delete/", {"post": "yes"})
    assert messages_of(response) == [
        f"tests.noop #{job.pk} was not deleted: another table refers to it."
    ]
    assert status_of(job) == "SUCCESSFUL"

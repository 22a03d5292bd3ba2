"""The admin of events and subscriptions, over HTTP; from a job to its origin."""

import pytest
from django.contrib.admin.models import LogEntry

from pgjobs import publish, subscribe, task
from pgjobs.features.events.tables import State
from pgjobs.features.schedules.declare import run_now
from pgjobs.models import Delivery, Event, Job, Subscription
from tests.actors import hours
from tests.operators import found, make_job, messages_of, operator, page_of, text_of
from tests.support.declared import store_schedules, store_subscriptions

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/event/"
SUBSCRIPTIONS = "/admin/pgjobs/subscription/"
ALL = ("view_event", "redeliver_event", "retry_job", "view_job_arguments", "view_job")


def recompute(satellite_id: int):
    pass


def notify(satellite_id: int):
    pass


@pytest.fixture(autouse=True)
def handlers(no_schedules, no_subscriptions):
    subscribe("tle.refreshed", ordered_by="aggregate")(task(recompute))
    subscribe("tle.*")(task(notify))
    store_subscriptions("default")


def published(**how) -> Event:
    return publish("tle.refreshed", {"satellite_id": 5}, **how)


def job_of(event: Event, name: str) -> Job:
    return Job.objects.get(delivery__event=event.pk, task=f"tests.{name}")


def dead_letter() -> Event:
    event = published(aggregate_id="satellite-5", correlation_id="import-7")
    job_of(event, "recompute").fail("No orbit.")
    job_of(event, "notify").succeed()
    return event


def page(event: Event) -> str:
    return f"{LIST}{event.pk}/change/"


def test_list_shows_what_became_of_each_event():
    dead_letter()
    published()
    publish("unheard.event")
    text = text_of(operator(*ALL).get(LIST))
    for word in ("Dead letter", "On its way", "Unhandled", "satellite-5", "2 handlers"):
        assert word in text


def test_overview_leads_to_events_that_wait_for_a_decision():
    dead_letter()
    text = text_of(operator(*ALL).get("/admin/pgjobs/job/overview/"))
    assert f'<a href="{LIST}?state=DEAD">1 dead letter</a>' in text
    hidden = text_of(operator("view_job").get("/admin/pgjobs/job/overview/"))
    assert f"{LIST}?state=DEAD" not in hidden


@pytest.mark.parametrize("state", State)
def test_filter_finds_the_events_of_a_state(state):
    delivered = published()
    Job.objects.filter(delivery__event=delivered.pk).succeed()
    cancelled = published()
    Job.objects.filter(delivery__event=cancelled.pk).cancel()
    pruned = published()
    Job.objects.filter(delivery__event=pruned.pk).delete()
    expected = {
        State.DEAD: dead_letter(),
        State.PENDING: published(),
        State.UNHANDLED: publish("unheard.event"),
        State.DELIVERED: delivered,
        State.CANCELLED: cancelled,
        State.PRUNED: pruned,
    }
    response = operator(*ALL).get(f"{LIST}?state={state}")
    assert list(response.context["cl"].result_list) == [expected[state]]


@pytest.mark.parametrize("state", [State.CANCELLED, State.PRUNED, State.DELIVERED])
def test_filter_looks_once_at_the_deliveries_of_each_event(state):
    plan = Event.objects.with_state().filter(state=state).values("pk").explain()
    assert plan.count(" on pgjobs_delivery ") == 1


def test_filter_finds_the_events_of_a_name():
    event = publish("tle.refreshed", {})
    publish("unheard.event")
    response = operator(*ALL).get(LIST, {"name": "tle.refreshed"})
    assert list(response.context["cl"].result_list) == [event]


@pytest.mark.parametrize("query", ["state=x", "published=x", "name=%00"])
def test_filter_of_nonsense_leads_back(query):
    assert operator(*ALL).get(f"{LIST}?{query}").status_code == 302


def test_other_lookups_are_refused():
    """They would let people guess payloads that they may not see."""
    response = operator(*ALL).get(f"{LIST}?payload__satellite_id=5")
    assert response.status_code == 400


@pytest.mark.parametrize("term", ["satellite-5", "import-7", "#{id}", "{id}"])
def test_search_finds_by_id_aggregate_and_correlation(term):
    event = dead_letter()
    published()
    response = operator(*ALL).get(LIST, {"q": term.format(id=event.pk)})
    assert list(response.context["cl"].result_list) == [event]


@pytest.mark.parametrize("term", ["nothing", "x" * 5_000, "99999999999999999999"])
def test_search_for_anything_finds_nothing(term):
    dead_letter()
    response = operator(*ALL).get(LIST, {"q": term})
    assert response.status_code == 200
    assert list(response.context["cl"].result_list) == []


def test_list_says_when_there_are_more_than_it_counts(monkeypatch):
    monkeypatch.setattr("pgjobs.admin.listing.COUNTED", 1)
    for _ in range(2):
        publish("unheard.event")
    text = text_of(operator(*ALL).get(LIST))
    assert "more than 1 events" in text
    assert "1 result" not in text


def test_list_costs_the_same_few_queries_however_many_events(
    django_assert_max_num_queries,
):
    for _ in range(20):
        dead_letter()
    client = operator(*ALL)
    client.get(LIST)
    with django_assert_max_num_queries(8):
        client.get(LIST)


def test_page_shows_the_deliveries_with_links_to_their_jobs():
    event = dead_letter()
    text = text_of(operator(*ALL).get(page(event)))
    for word in ("tests.recompute", "tests.notify", "No orbit.", "import-7"):
        assert word in text
    assert page_of(job_of(event, "recompute")) in text
    assert f"/job/retry/{job_of(event, 'recompute').pk}/" in text
    assert "&quot;satellite_id&quot;: 5" in text


def test_page_says_that_no_task_subscribed_and_that_a_delivery_is_late():
    event = publish("unheard.event")
    assert "No task had subscribed" in text_of(operator(*ALL).get(page(event)))
    subscribe("unheard.*")(task(notify))
    store_subscriptions("default")
    text = text_of(operator(*ALL).get(page(event)))
    assert "late: the handler had not subscribed when it was published" in text


def test_page_says_that_deliveries_are_gone():
    event = dead_letter()
    job_of(event, "notify").delete()
    assert "1 delivery is not kept" in text_of(operator(*ALL).get(page(event)))
    Job.objects.all().delete()
    assert "None is kept any longer" in text_of(operator(*ALL).get(page(event)))


def test_payload_is_shown_to_those_who_may_see_arguments_only():
    event = published()
    text = text_of(operator("view_event").get(page(event)))
    assert "You may not see the arguments" in text
    assert "satellite_id" not in text


def test_texts_of_events_are_escaped():
    event = publish("<script>", {"a": "<b>"}, aggregate_id='"><img>')
    client = operator(*ALL)
    for text in (text_of(client.get(LIST)), text_of(client.get(page(event)))):
        assert "<script>" not in text.partition("content-main")[2].partition("<nav")[0]
        assert "<b>" not in text and '"><img>' not in text


# Delivering again


@pytest.mark.parametrize("verb", ["redeliver", "redeliver_all"])
def test_button_asks_before_it_acts(verb):
    event = dead_letter()
    response = operator(*ALL).get(f"{LIST}{verb}/{event.pk}/")
    assert response.status_code == 200
    assert "run again" in text_of(response) or "gets the event again" in text_of(
        response
    )
    assert Job.objects.filter(life=2).count() == 0


def test_button_redelivers_what_failed_and_no_more():
    event = dead_letter()
    client = operator(*ALL)
    response = client.post(f"{LIST}redeliver/{event.pk}/?from=page")
    assert response.url == page(event)
    assert messages_of(response) == ["1 delivery runs again."]
    assert list(Job.objects.filter(life=2)) == [job_of(event, "recompute")]
    assert "1 delivery runs again." in LogEntry.objects.get().change_message
    response = client.post(f"{LIST}redeliver/{event.pk}/")  # twice
    assert messages_of(response)[-1] == "0 deliveries run again."


def test_button_redelivers_to_all():
    event = dead_letter()
    operator(*ALL).post(f"{LIST}redeliver_all/{event.pk}/")
    assert Job.objects.filter(life=2, delivery__event=event.pk).count() == 2


def test_dead_letters_are_redelivered_together_after_a_confirmation():
    events = [dead_letter(), dead_letter()]
    client = operator(*ALL)
    fields = {
        "action": "redeliver_selected",
        "_selected_action": [each.pk for each in events],
    }
    asked = client.post(f"{LIST}?state=DEAD", fields)
    assert "2 events" in text_of(asked)
    assert not Job.objects.filter(life=2).exists()
    done = client.post(f"{LIST}?state=DEAD", fields | {"confirmed": "yes"})
    assert messages_of(done) == ["2 deliveries run again."]
    assert Job.objects.filter(life=2).count() == 2
    assert "Redeliver failed. 2 deliveries run" in LogEntry.objects.get().change_message


def test_all_that_match_are_redelivered():
    for _ in range(3):
        dead_letter()
    newest = Event.objects.latest("pk")
    fields = {
        "action": "redeliver_selected",
        "_selected_action": [newest.pk],
        "select_across": "1",
        "confirmed": "yes",
    }
    done = operator(*ALL).post(f"{LIST}?state=DEAD", fields)
    assert messages_of(done) == ["3 deliveries run again."]


def test_selection_of_anything_else_is_refused():
    fields = {"action": "redeliver_selected", "_selected_action": ["x"]}
    assert operator(*ALL).post(LIST, fields).status_code == 400


def test_redelivering_needs_a_permission_of_its_own():
    event = dead_letter()
    client = operator("view_event", "view_job")
    assert client.post(f"{LIST}redeliver/{event.pk}/").status_code == 403
    text = text_of(client.get(page(event)))
    assert "redeliver" not in text and "/job/retry/" not in text
    assert "redeliver_selected" not in text_of(client.get(LIST))
    assert not Job.objects.filter(life=2).exists()


def test_event_that_is_gone_is_404():
    assert operator(*ALL).post(f"{LIST}redeliver/4711/").status_code == 404


def test_events_are_not_added_changed_or_deleted():
    event = published()
    client = operator("view_event", "redeliver_event")
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(page(event), {"name": "x"}).status_code == 403
    assert client.post(f"{LIST}{event.pk}/delete/").status_code == 403


# Subscriptions


def test_subscriptions_are_listed():
    page = operator("view_subscription").get(SUBSCRIPTIONS)
    text = text_of(page).replace("<wbr>", "")
    assert "tests.recompute" in text and "tle.*" in text
    assert "?name=tle.refreshed" in text
    one = Subscription.objects.get(task="tests.recompute")
    text = text_of(
        operator("view_subscription").get(f"{SUBSCRIPTIONS}{one.pk}/change/")
    )
    assert "tle.refreshed" in text.replace("<wbr>", "")


# Where a job came from


def test_page_of_a_job_leads_to_its_event():
    event = published()
    text = text_of(operator("view_job").get(page_of(job_of(event, "notify"))))
    assert f'<a href="{page(event)}">tle.refreshed #{event.pk}</a>' in text


def test_page_of_a_job_leads_to_its_schedule():
    task(every=hours(1), name="tests.hourly")(recompute_all)
    store_schedules("default")
    from pgjobs.models import Schedule

    schedule = Schedule.objects.get()
    text = text_of(operator("view_job").get(page_of(run_now(schedule))))
    url = f"/admin/pgjobs/schedule/{schedule.pk}/change/"
    assert f'<a href="{url}">tests.hourly</a>' in text


def recompute_all():
    pass


# Lists


def test_jobs_of_an_event_are_filtered():
    job, _ = make_job(), make_job()
    event = Event.objects.create(name="paid", payload={})
    Delivery.objects.create(job=job, event=event, task="tests.noop")
    assert found(operator("view_job"), event=event.pk) == [job.pk]


def test_empty_list_says_what_to_do_next():
    client = operator("view_event")
    address = "/admin/pgjobs/event/"
    assert "when the code publishes it" in text_of(client.get(address))
    shown = text_of(client.get(address, {"q": "no such"}))
    assert "when the code publishes it" not in shown

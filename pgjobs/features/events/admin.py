"""The admin of events and subscriptions: where events went, and redelivery."""

from collections.abc import Callable, Iterator

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import F
from django.db.models.functions import Left, Now
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from ...admin.acting import ActingAdmin, permitted
from ...admin.acts import Act
from ...admin.details import Origin as JobOrigin
from ...admin.details import beginning, json_block
from ...admin.filters import MOST_CHOICES, AgeFilter, ChoiceFilter, IdFilter, NameFilter
from ...admin.links import list_url
from ...admin.listing import ReadOnlyAdmin
from ...admin.markup import (
    LONGEST_CELL,
    ago,
    full,
    moment,
    short,
    status_and_note,
    status_word,
)
from ...base.ids import read_id
from ...models.job_choices import Status
from ...queue.acts import Changed
from ...reports.job_filters import age, checked
from ...reports.status import capped
from ...reports.texts import excerpt
from ...tasks.sensitive import sensitive_by_task
from ..desk.links import Links
from .jobstatus import state
from .tables import Delivery, Event, EventQuerySet, Origin, State, Subscription

LONGEST_REASON = 300
LONGEST_TERM = 200
MOST_DELIVERIES = 200


# Acts


def by_ids(deliver: Callable[[EventQuerySet], Changed]) -> Callable[..., Changed]:
    """Return the act that finds the events first: their filter may be costly."""

    def run(events) -> Changed:
        return deliver(
            Event.objects.filter(pk__in=list(events.values_list("pk", flat=True)))
        )

    return run


DONE = ngettext_lazy(
    "%(count)d delivery runs again.", "%(count)d deliveries run again.", "count"
)
LEFT = _("%(count)d left unchanged.")

REDELIVER = Act(
    verb="redeliver",
    permission="redeliver",
    run=by_ids(EventQuerySet.redeliver),
    is_offered=lambda event: event.state == State.DEAD,
    label=_("Redeliver failed"),
    bulk_label=_("Redeliver what failed of selected events"),
    effect=_(
        "Deliveries that failed for good run again from the beginning, with all their "
        "attempts. Handlers that succeeded do not."
    ),
    done=DONE,
    skipped=LEFT,
)
REDELIVER_ALL = Act(
    verb="redeliver_all",
    permission="redeliver",
    run=by_ids(EventQuerySet.redeliver_all),
    is_offered=lambda event: True,
    label=_("Redeliver to all"),
    bulk_label=_("Redeliver selected events to all handlers"),
    effect=_(
        "Every handler gets the event again, those that succeeded too, and those that "
        "subscribed after it was published. Deliveries on their way stay as they are."
    ),
    done=DONE,
    skipped=LEFT,
)


# Filters


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"
    # Written in this way, PostgreSQL can begin with the jobs.
    quick = {
        State.DEAD: EventQuerySet.dead,
        State.PENDING: EventQuerySet.pending,
    }

    def lookups(self, request, model_admin):
        labels = dict(State.choices) | {str(State.DEAD): _("Dead letters")}
        return list(labels.items())

    def queryset(self, request, queryset):
        if self.value() is None:
            return queryset
        if self.value() not in State.values:
            raise IncorrectLookupParameters
        state = State(self.value())
        if state == State.UNHANDLED:  # which needs no look at deliveries
            return queryset.unhandled()
        return self.quick.get(state, lambda events: events)(queryset).filter(
            state=state
        )


class EventNameFilter(NameFilter):
    title = _("name")
    parameter_name = "name"

    def known_names(self) -> set[str]:
        subscribed = Subscription.objects.exclude(event__endswith=".*")
        return set(subscribed.values_list("event", flat=True)[:MOST_CHOICES])

    def narrow(self, rows, text: str):
        return rows.filter(name=checked(text))


class PublishedFilter(AgeFilter):
    title = _("published")
    parameter_name = "published"

    def narrow(self, rows, text: str):
        return rows.filter(published_at__gte=Now() - age(text))


FILTERS = (StateFilter, EventNameFilter, PublishedFilter)


class EventFilter(IdFilter):
    title = _("event")
    parameter_name = "event"


JOB_FILTERS = (EventFilter,)
JOB_ORIGINS = (
    JobOrigin("event", "delivery__event_id", "delivery__event__name", "{name} #{id}"),
)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin, ActingAdmin):
    """Events with their deliveries. The admin does not edit them."""

    change_form_template = "admin/pgjobs/event/change_form.html"
    list_display = ("id", "short_name", "state_word", "short_aggregate", "published")
    list_display_links = ("id", "short_name")
    list_filter = FILTERS
    when_empty = _("An event appears here when the code publishes it.")
    ordering = ("-id",)
    # `find` decides what is searched.
    search_fields = ("id", "aggregate_id", "correlation_id")
    search_help_text = _("An id, an aggregate or a correlation")
    fields = (
        ("short_name", "state_word"),
        ("published", "full_aggregate", "full_correlation"),
    )
    acts = bulk_acts = (REDELIVER, REDELIVER_ALL)
    most_at_once = 10_000

    has_redeliver_permission = permitted("redeliver_event")

    # Pages

    def get_queryset(self, request):
        return super().get_queryset(request).defer("payload").with_state()

    def look_up(self, request, rows):
        dead = {event.pk: event for event in rows if event.state == State.DEAD}
        failed = Delivery.objects.filter(event__in=dead, job__status=Status.FAILED)
        starts = failed.annotate(start=Left("job__reason", LONGEST_REASON + 1))
        for id, task, start in starts.values_list("event_id", "task", "start"):
            text = gettext("Failed: %(task)s: %(reason)s")
            reason = excerpt(start, LONGEST_CELL)
            values = {"task": excerpt(task, LONGEST_CELL), "reason": reason}
            dead[id].failed_handler = text % values

    def find(self, rows, term):
        if len(term) > LONGEST_TERM or "\0" in term:
            return rows.none()
        id = read_id(term.removeprefix("#"))
        # Three looks into indexes, rather than a scan for one of three conditions.
        ways = [{"aggregate_id": term}, {"correlation_id": term}]
        ways += [] if id is None else [{"pk": id}]
        found = Event.objects.none().values("pk")
        return rows.filter(
            pk__in=found.union(*(Event.objects.filter(**w).values("pk") for w in ways))
        )

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        if request.user.has_perm("pgjobs.view_job_arguments"):
            texts = Event.objects.filter(pk=obj.pk).values_list(beginning("payload"))
            tasks = obj.deliveries.values_list("task", flat=True)
            words = sensitive_by_task(tasks)
            # What one of its handlers calls sensitive, it is for the event, too.
            together = tuple({word for each in words.values() for word in each})
            context["payload"] = json_block(texts.first()[0], together)
        deliveries = list(deliveries_of(obj))
        context |= {
            "deliveries": deliveries[:MOST_DELIVERIES],
            "hidden_deliveries": len(deliveries) > MOST_DELIVERIES,
            "gone": max(obj.handlers - len(deliveries), 0),
            "may_retry": request.user.has_perm("pgjobs.retry_job"),
            "is_unhandled": obj.state == State.UNHANDLED,
        }
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def preview(self, act, row):
        return super().preview(act, row) | {"status": State(row.state).label}

    # Columns

    short_name = short("name", _("name"))
    short_aggregate = short("aggregate_id", _("aggregate"))
    full_aggregate = full("aggregate_id", _("aggregate"))
    full_correlation = full("correlation_id", _("correlation"))

    @admin.display(description=_("state"))
    def state_word(self, event: Event) -> str:
        word = status_word(COLOURS[event.state], State(event.state).label)
        number = event.handlers
        note = ngettext("%(n)d handler", "%(n)d handlers", number) % {"n": number}
        if failed := getattr(event, "failed_handler", ""):
            note = f"{note}. {failed}"
        return status_and_note(word, note)

    @admin.display(description=_("published"))
    def published(self, event: Event) -> str:
        return ago(event.published_at)


COLOURS = {
    State.UNHANDLED: "waiting",
    State.DEAD: "failed",
    State.PENDING: "ready",
    State.CANCELLED: "cancelled",
    State.PRUNED: "cancelled",
    State.DELIVERED: "successful",
}


def deliveries_of(event: Event):
    """Return the deliveries without large columns, one more than the page shows."""
    deliveries = Delivery.objects.filter(event=event.pk).order_by("job_id")
    for each in deliveries.annotate(
        status=F("job__status"),
        attempts=F("job__attempts"),
        most_attempts=F("job__max_attempts"),
        life=F("job__life"),
        finished_at=F("job__finished_at"),
        reason=Left("job__reason", LONGEST_REASON + 1),
    )[: MOST_DELIVERIES + 1]:
        each.shown_task = excerpt(each.task, LONGEST_CELL)
        each.status_label = Status(each.status).label
        each.shown_reason = excerpt(each.reason, LONGEST_REASON)
        each.is_finished = each.finished_at is not None
        each.shown_end = ago(each.finished_at)
        each.notes = [
            gettext("delivered %(when)s") % {"when": Origin(each.origin).label}
            if each.origin != Origin.PUBLISHED
            else "",
            gettext("redelivered") if each.life > 1 else "",
        ]
        yield each


class InactiveFilter(ChoiceFilter):
    title = _("state")
    parameter_name = "state"
    choices_by_name = {
        "active": (_("Active"), {"inactive_at__isnull": True}),
        "inactive": (_("No longer declared"), {"inactive_at__isnull": False}),
    }


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    """Which tasks handle which events. The code declares it."""

    list_display = ("task_name", "event_name", "is_ordered", "state", "began")
    list_display_links = ("task_name",)
    list_filter = (InactiveFilter,)
    ordering = ("event", "task")
    search_fields = ("task", "event")
    fields = (
        ("task_name", "event_name"),
        ("is_ordered", "began", "ended"),
        ("queue_name", "priority", "max_attempts", "max_crashes"),
        ("timeout", "expires_in"),
        "held_by",
    )

    task_name = short("task", _("task"))
    began = moment("since", _("since"))
    ended = moment("inactive_at", _("inactive since"))

    @admin.display(description=_("event"))
    def event_name(self, subscription: Subscription) -> str:
        name = excerpt(subscription.event, LONGEST_CELL)
        if "*" in name:
            return name
        url = list_url("event", self.admin_site, name=subscription.event)
        return format_html('<a href="{}">{}</a>', url, name)

    @admin.display(description=_("active"), boolean=True)
    def state(self, subscription: Subscription) -> bool:
        return subscription.inactive_at is None

    @admin.display(description=_("lock, limit and rate"))
    def held_by(self, subscription: Subscription) -> str:
        keys = subscription.keys or {}
        text = ", ".join(f"{name}: {value}" for name, value in keys.items())
        return excerpt(text, LONGEST_REASON)


def overview_links(overview: Links) -> Iterator[str]:
    if not overview.may_view("event"):
        return
    counts = state(Event.objects.db)
    if number := counts["dead"]:
        text = ngettext("%(number)s dead letter", "%(number)s dead letters", number)
        text %= {"number": capped(number)}
        yield overview.list_link("event", text, state="DEAD")
    if number := counts["unhandled"]:
        text = ngettext(
            "%(number)s unhandled event", "%(number)s unhandled events", number
        )
        text %= {"number": capped(number)}
        yield overview.list_link("event", text, state="UNHANDLED")


OVERVIEW_LINKS = (overview_links,)

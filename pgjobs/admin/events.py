"""The admin of events: what became of each, and to deliver it again; who subscribes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest
from django.db.models import F
from django.db.models.functions import Left
from django.http import HttpResponseRedirect
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Event, Status, Subscription
from ..models.event import EventQuerySet, Origin, State
from ..queue.acts import Changed
from .buttons import ButtonsAdmin, button
from .confirmation import ConfirmationPages, is_across, selection
from .details import beginning, json_block
from .filters import MOST_CHOICES, AgeFilter, NameFilter
from .forms import ActForm
from .ids import read_id
from .listing import CappedPaginator
from .readonly import ReadOnlyAdmin
from .texts import block, excerpt

LONGEST_CELL = 80
LONGEST_REASON = 300
LONGEST_TERM = 200
MOST_DELIVERIES = 200
MOST_AT_ONCE = 10_000  # events that one request handles


# Acts


@dataclass(frozen=True, kw_only=True)
class EventAct:
    verb: str  # in URLs and names
    run: Callable[[EventQuerySet], Changed]
    is_offered: Callable[[Event], bool]
    label: Any
    bulk_label: Any
    effect: Any
    effect_on_running: Any = ""


REDELIVER = EventAct(
    verb="redeliver",
    run=EventQuerySet.redeliver,
    is_offered=lambda event: event.state == State.DEAD,
    label=_("Redeliver failed"),
    bulk_label=_("Redeliver what failed of selected events"),
    effect=_(
        "Deliveries that failed for good run again from the beginning, with all their "
        "attempts. Handlers that succeeded do not."
    ),
)
REDELIVER_ALL = EventAct(
    verb="redeliver_all",
    run=EventQuerySet.redeliver_all,
    is_offered=lambda event: True,
    label=_("Redeliver to all"),
    bulk_label=_("Redeliver selected events to all handlers"),
    effect=_(
        "Every handler gets the event again, those that succeeded too, and those that "
        "subscribed after it was published. Deliveries on their way stay as they are."
    ),
)


def act_button(act: EventAct):
    @button(
        label=act.label,
        path=act.verb,
        permission="redeliver",
        is_offered=act.is_offered,
    )
    def view(self, request, event):
        return self.act_on_event(request, act, event)

    return view


def bulk_action(act: EventAct):
    def action(model_admin, request, queryset):
        return model_admin.act_on_selection(request, act, queryset)

    action.__name__ = f"{act.verb}_selected"
    action.short_description = act.bulk_label
    action.allowed_permissions = ("redeliver",)
    if hasattr(admin, "ActionLocation"):  # Django 6.1: the detail page has its buttons
        action.locations = [admin.ActionLocation.CHANGE_LIST]
    return action


# Filters


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"
    # In words that let PostgreSQL begin with the jobs.
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


class PublishedFilter(AgeFilter):
    title = _("published")
    parameter_name = "published"
    column = "published_at"


FILTERS = (StateFilter, EventNameFilter, PublishedFilter)


class EventAdmin(ConfirmationPages, ReadOnlyAdmin, ButtonsAdmin):
    """Events with their deliveries. Nobody edits them by hand."""

    change_form_template = "admin/pgjobs/event/change_form.html"
    list_display = ("id", "short_name", "state_word", "short_aggregate", "published")
    list_display_links = ("id", "short_name")
    list_filter = FILTERS
    list_per_page = 50
    ordering = ("-id",)
    sortable_by = ()
    paginator = CappedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    # What is searched is up to get_search_results.
    search_fields = ("id", "aggregate_id", "correlation_id")
    search_help_text = _("An id, an aggregate or a correlation")
    fields = (
        ("short_name", "state_word"),
        ("published", "full_aggregate", "full_correlation"),
    )
    actions = [bulk_action(REDELIVER), bulk_action(REDELIVER_ALL)]
    actions_row = actions_detail = (
        "pgjobs_event_redeliver",
        "pgjobs_event_redeliver_all",
    )

    pgjobs_event_redeliver = act_button(REDELIVER)
    pgjobs_event_redeliver_all = act_button(REDELIVER_ALL)

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    # Permissions

    def has_redeliver_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.redeliver_event")

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        return lookup in {each.parameter_name for each in FILTERS}

    # Pages

    def get_queryset(self, request):
        return super().get_queryset(request).defer("payload").with_state()

    def get_search_results(self, request, queryset, search_term):
        term = search_term.strip()
        if not term:
            return queryset, False
        if len(term) > LONGEST_TERM or "\0" in term:
            return queryset.none(), False
        id = read_id(term.removeprefix("#"))
        # Three looks into indexes, rather than a scan for one of three conditions.
        ways = [{"aggregate_id": term}, {"correlation_id": term}]
        ways += [] if id is None else [{"pk": id}]
        found = Event.objects.none().values("pk")
        return queryset.filter(
            pk__in=found.union(*(Event.objects.filter(**w).values("pk") for w in ways))
        ), False

    def changelist_view(self, request, extra_context=None):
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if any(read_id(each) is None for each in selected):
            raise BadRequest("What is selected must be ids of events.")
        return super().changelist_view(request, extra_context)

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        if request.user.has_perm("pgjobs.view_job_arguments"):
            texts = Event.objects.filter(pk=obj.pk).values_list(beginning("payload"))
            context["payload"] = json_block(texts.first()[0])
        deliveries = list(deliveries_of(obj))
        context |= {
            "deliveries": deliveries[:MOST_DELIVERIES],
            "hidden_deliveries": len(deliveries) > MOST_DELIVERIES,
            "gone": max(obj.handlers - len(deliveries), 0),
            "may_retry": request.user.has_perm("pgjobs.retry_job"),
            "is_unhandled": obj.state == State.UNHANDLED,
        }
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    # Acts

    def act_on_event(self, request, act: EventAct, event: Event):
        """Answer a button's request: ask first, and act on a POST."""
        if request.method == "POST":
            changed = act.run(event.alone)
            if changed.changed:
                self.log_change(request, event, report(changed))
            self.report(request, changed)
            return HttpResponseRedirect(self.url_back(request, event))
        context = {
            "subject": excerpt(str(event), LONGEST_CELL),
            "status": State(event.state).label,
            "is_possible": act.is_offered(event),
            "url_back": self.url_back(request, event),
        }
        return self.confirmation_page(request, act, ActForm(), context)

    def act_on_selection(self, request, act: EventAct, queryset):
        """Answer a bulk action's request; None leads back to the list."""
        if "confirmed" in request.POST:
            ids = list(queryset.order_by("pk").values_list("pk", flat=True))
            chosen = Event.objects.filter(pk__in=ids[:MOST_AT_ONCE])
            changed = act.run(chosen)
            if changed.changed:
                self.log_bulk_act(request, act, report(changed), len(ids))
            self.report(request, changed)
            return None
        across = is_across(request)
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        number = queryset.count()
        context = {
            "subject": events(number),
            "is_possible": number > 0,
            "most_at_once": MOST_AT_ONCE if number > MOST_AT_ONCE else None,
            "is_across": across,
            "action": request.POST.get("action"),
            "checkbox_name": ACTION_CHECKBOX_NAME,
            "selected": selected[:1] if across else selected,
            "form_url": request.get_full_path(),
            "url_back": request.get_full_path(),
        }
        return self.confirmation_page(request, act, ActForm(), context)

    def log_bulk_act(self, request, act: EventAct, text: str, number: int) -> None:
        """Make one entry for all: the events may be very many."""
        LogEntry.objects.create(
            user_id=request.user.pk,
            content_type=ContentType.objects.get_for_model(Event),
            object_repr=events(min(number, MOST_AT_ONCE)),
            action_flag=CHANGE,
            change_message=f"{act.label}. {text} {selection(request)}",
        )

    def report(self, request, changed: Changed) -> None:
        level = messages.SUCCESS if changed.changed else messages.WARNING
        self.message_user(request, report(changed), level)

    # Columns

    @admin.display(description=_("name"))
    def short_name(self, event: Event) -> str:
        return excerpt(event.name, LONGEST_CELL)

    @admin.display(description=_("state"))
    def state_word(self, event: Event) -> str:
        word = format_html(
            '<span class="pgjobs-status pgjobs-{}">{}</span>',
            COLOURS[event.state],
            State(event.state).label,
        )
        number = event.handlers
        note = ngettext("%(n)d handler", "%(n)d handlers", number) % {"n": number}
        return format_html('{}<div class="pgjobs-reason">{}</div>', word, note)

    @admin.display(description=_("aggregate"))
    def short_aggregate(self, event: Event) -> str:
        return excerpt(event.aggregate_id or "", LONGEST_CELL) or self.nothing

    @admin.display(description=_("published"))
    def published(self, event: Event) -> str:
        return date_format(localtime(event.published_at), "SHORT_DATETIME_FORMAT")

    @admin.display(description=_("aggregate"))
    def full_aggregate(self, event: Event) -> str:
        return block(event.aggregate_id or "", LONGEST_TERM) or self.nothing

    @admin.display(description=_("correlation"))
    def full_correlation(self, event: Event) -> str:
        return block(event.correlation_id or "", LONGEST_TERM) or self.nothing

    @property
    def nothing(self) -> str:
        return self.get_empty_value_display()


COLOURS = {
    State.UNHANDLED: "waiting",
    State.DEAD: "failed",
    State.PENDING: "ready",
    State.CANCELLED: "cancelled",
    State.PRUNED: "cancelled",
    State.DELIVERED: "successful",
}


def events(number: int) -> str:
    return ngettext("%(n)d event", "%(n)d events", number) % {"n": number}


def report(changed: Changed) -> str:
    """Return in words what delivering again has done."""
    number = changed.changed
    text = ngettext("%(n)d delivery runs again.", "%(n)d deliveries run again.", number)
    sentences = [text % {"n": number}]
    if changed.skipped:
        sentences.append(gettext("%(n)d left as they are.") % {"n": changed.skipped})
    return " ".join(sentences)


def deliveries_of(event: Event):
    """Return one more than the deliveries that are shown, without what may be large."""
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
        each.notes = [
            gettext("delivered %(when)s") % {"when": Origin(each.origin).label}
            if each.origin != Origin.PUBLISHED
            else "",
            gettext("redelivered") if each.life > 1 else "",
        ]
        yield each


class SubscriptionAdmin(ReadOnlyAdmin, admin.ModelAdmin):
    """Who handles which events: the code says so."""

    list_display = ("task_name", "event_name", "is_ordered", "state", "since")
    list_display_links = ("task_name",)
    list_filter = (("inactive_at", admin.EmptyFieldListFilter),)
    ordering = ("event", "task")
    search_fields = ("task", "event")
    show_facets = admin.ShowFacets.NEVER
    actions = None
    fields = (
        ("task_name", "event_name"),
        ("is_ordered", "since", "inactive_at"),
        ("queue_name", "priority", "max_attempts", "max_crashes"),
        ("timeout", "expires_in"),
        "held_by",
    )

    class Media:
        css = {"all": ["pgjobs/admin.css"]}

    @admin.display(description=_("task"))
    def task_name(self, subscription: Subscription) -> str:
        return excerpt(subscription.task, LONGEST_CELL)

    @admin.display(description=_("event"))
    def event_name(self, subscription: Subscription) -> str:
        name = excerpt(subscription.event, LONGEST_CELL)
        if "*" in name:
            return name
        url = reverse("admin:pgjobs_event_changelist", current_app=self.admin_site.name)
        query = urlencode({"name": subscription.event})
        return format_html('<a href="{}?{}">{}</a>', url, query, name)

    @admin.display(description=_("active"), boolean=True)
    def state(self, subscription: Subscription) -> bool:
        return subscription.inactive_at is None

    @admin.display(description=_("lock, limit and rate"))
    def held_by(self, subscription: Subscription) -> str:
        keys = subscription.keys or {}
        return ", ".join(f"{name}: {value}" for name, value in keys.items())

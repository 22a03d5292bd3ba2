"""The form of a new job of a task."""

from typing import Any

from django import forms
from django.contrib.admin import widgets
from django.utils.translation import gettext_lazy as _

from ..exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask
from ..models import Job
from ..tasks.task import Task
from .argument_fields import ArgumentsMixin
from .moments import MomentField


class JobForm(ArgumentsMixin, forms.Form):
    """The arguments and options of a new job of the task."""

    queue_name = forms.CharField(
        label=_("Queue"),
        required=False,
        max_length=200,
        widget=widgets.AdminTextInputWidget,
    )
    priority = forms.IntegerField(
        label=_("Priority"), required=False, min_value=-100, max_value=100
    )
    run_after = MomentField(label=_("Run after"), required=False)

    def __init__(self, task: Task, data=None, like: Job | None = None):
        """Make the form; `like` is a job whose arguments and options it begins with."""
        super().__init__(data)
        self.add_arguments(task, takes_all=True)
        self.initial["queue_name"] = task.options.queue_name
        self.initial["priority"] = task.options.priority
        if like is not None:
            self.initial |= {"queue_name": like.queue_name, "priority": like.priority}
            self.begin_with(like.kwargs if isinstance(like.kwargs, dict) else {})

    @property
    def fieldsets(self) -> list[tuple[Any, list]]:
        options = [self[name] for name in ("queue_name", "priority", "run_after")]
        arguments = [self[name] for name in self.argument_names]
        return [(_("Arguments"), arguments), (_("Job"), options)]

    def enqueue(self) -> list[Job] | None:
        """Enqueue the job, or the jobs of ALL.

        Returns None if the arguments were refused: the form has the errors then.
        """
        positional, named = self.given()
        try:
            enqueued = self.task.using(
                queue_name=self.cleaned_data["queue_name"] or None,
                priority=self.cleaned_data["priority"],
                run_after=self.cleaned_data["run_after"],
            ).enqueue(*positional, **named)
        except InvalidArguments as error:
            self.add_faults(error.faults)
            return None
        except (AlreadyEnqueued, InvalidTask) as error:
            self.add_error(None, str(error))
            return None
        jobs = enqueued if isinstance(enqueued, list) else [enqueued]
        return [job for job in jobs if job is not None]

"""The columns of a job's row. Their comments stand in the database, too."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..fields import LenientDecoder
from .job_choices import Status, UniqueFor, WaitingFor
from .table import Table

EMPTY_ARRAY = models.Value([], models.JSONField())
EMPTY_OBJECT = models.Value({}, models.JSONField())


class JobColumns(Table):
    """What a job's row has; `Job` is what may be done to it."""

    # The fields stand in the order of the table's columns: the fixed ones before those
    # of any length, and last those that are NULL for most jobs. PostgreSQL aligns each
    # column, and finds the first ones without walking over others.

    # An identity: see database/tables/jobs.sql. It rises so that limit keys alternate.
    turn = models.BigIntegerField(
        _("turn"),
        db_default=0,
        db_comment="Place among the jobs of one priority: lower ones are claimed "
        "first. It rises with the ids, and again when a limit admits the job.",
    )
    lease_token = models.BigIntegerField(
        _("lease token"),
        db_default=0,
        db_comment="Drawn at each claim and never used again; 0 before the first. A "
        "worker with an older one changes nothing.",
    )
    enqueued_at = models.DateTimeField(
        _("enqueued at"), db_default=Now(), db_comment="When it was enqueued."
    )
    attempts = models.IntegerField(
        _("attempts"),
        db_default=0,
        db_comment="How many attempts of this life were claimed.",
    )
    failures = models.IntegerField(
        _("failures"), db_default=0, db_comment="How many attempts of this life failed."
    )
    life = models.IntegerField(
        _("life"),
        db_default=1,
        db_comment="1, and one more after each retry by a person.",
    )
    priority = models.SmallIntegerField(
        _("priority"),
        db_default=0,
        db_comment="From -100 to 100. Jobs with a higher one are claimed first.",
    )
    max_attempts = models.SmallIntegerField(
        _("most attempts"),
        db_default=3,
        db_comment="After so many failures the job ends FAILED.",
    )
    crashes = models.SmallIntegerField(
        _("crashes"),
        db_default=0,
        db_comment="How often in this life a worker was lost while it ran the job.",
    )
    max_crashes = models.SmallIntegerField(
        _("most crashes"),
        db_default=3,
        db_comment="After so many crashes the job ends FAILED.",
    )
    awaited = models.BooleanField(
        _("awaited"),
        db_default=False,
        db_comment="Whether a process waits for the end of the job, so that the end "
        "notifies it.",
    )

    task = models.CharField(
        _("task"),
        max_length=200,
        db_comment="Name of the task, as in pgjobs_taskdefinition.",
    )
    queue_name = models.CharField(
        _("queue"),
        max_length=200,
        db_default="default",
        db_comment="The queue, from which workers claim the job.",
    )
    status = models.CharField(
        _("status"),
        max_length=10,
        choices=Status,
        db_default=Status.READY,
        db_comment="SCHEDULED, WAITING, READY, RUNNING, SUCCESSFUL, FAILED or "
        "CANCELLED. Not to be written by hand.",
    )
    args = models.JSONField(
        _("unnamed arguments"),
        decoder=LenientDecoder,
        db_default=EMPTY_ARRAY,
        db_comment="Arguments without names: a JSON array.",
    )
    kwargs = models.JSONField(
        _("arguments"),
        decoder=LenientDecoder,
        db_default=EMPTY_OBJECT,
        db_comment="Arguments by their names: a JSON object.",
    )
    reason = models.TextField(
        _("reason"),
        db_default="",
        db_comment="Why it last failed, was cancelled or went back to the queue, for "
        "people. Empty: nothing to say.",
    )

    started_at = models.DateTimeField(
        _("started at"),
        null=True,
        db_comment="When the first attempt of this life was claimed. NULL before.",
    )
    last_attempted_at = models.DateTimeField(
        _("last attempted at"),
        null=True,
        db_comment="When the last attempt of this life was claimed. NULL before the "
        "first.",
    )
    finished_at = models.DateTimeField(
        _("finished at"),
        null=True,
        db_comment="When it became SUCCESSFUL, FAILED or CANCELLED. NULL before.",
    )
    run_after = models.DateTimeField(
        _("run after"),
        null=True,
        blank=True,
        db_comment="It does not start before this time. A pause between attempts "
        "moves it. NULL: no such time.",
    )
    expires_at = models.DateTimeField(
        _("expires at"),
        null=True,
        blank=True,
        db_comment="If no attempt was claimed by then, the job is cancelled. NULL: it "
        "does not expire.",
    )
    cancel_requested_at = models.DateTimeField(
        _("cancel requested at"),
        null=True,
        db_comment="When the running job was asked to stop. NULL: it was not.",
    )
    timeout = models.FloatField(
        _("time limit of an attempt in seconds"),
        null=True,
        blank=True,
        db_comment="Time limit of an attempt in seconds. NULL leaves it to the task, "
        "or to the setting TIMEOUT.",
    )
    # NULL keeps the row out of the index of units.
    process_units = models.BigIntegerField(
        _("process units"),
        null=True,
        blank=True,
        db_comment="How many process units of its host it takes while it runs. NULL "
        "counts as 1.",
    )
    return_value = models.JSONField(
        _("result"),
        decoder=LenientDecoder,
        null=True,
        db_comment="What the task returned, as JSON. NULL: None, or it did not "
        "succeed.",
    )
    # See tasks/flow_control.py and features/batches/options.py.
    keys = models.JSONField(
        _("ties to other jobs"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="What it shares with other jobs, as JSON: lock, limit, rate, "
        "predecessors, batch, follow-ups. NULL: nothing.",
    )
    # NULL rather than an empty text: it takes no space, and most jobs never wait.
    waiting_for = models.CharField(  # noqa: DJ001
        _("waits for"),
        max_length=11,
        choices=WaitingFor,
        null=True,
        blank=True,
        db_comment="The first obstacle of a WAITING job: predecessor, dependency, "
        "lock, limit or rate; or answer, event or jobs, for which its task waits. "
        "NULL: it is not WAITING.",
    )
    # Of a job that waits, reports/obstacles.py finds the present one.
    blocked_by_id = models.BigIntegerField(
        _("blocked by"),
        null=True,
        blank=True,
        db_comment="Id of the job that was in the way when this one began to wait, or "
        "of the predecessor because of which it was ended. NULL: none.",
    )
    # See features/dependencies/declare.py.
    dependencies = models.JSONField(
        _("dependencies"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="What must have succeeded before it runs, and what others may need "
        "of it, as JSON. NULL: nothing, as far as is known.",
    )
    # NULL rather than an empty text: it takes no space, and most jobs have no key.
    unique_key = models.CharField(  # noqa: DJ001
        _("unique key"),
        max_length=500,
        null=True,
        blank=True,
        db_comment="While the job holds this key, no other job can have it. NULL: it "
        "has none.",
    )
    unique_for = models.CharField(  # noqa: DJ001
        _("unique"),
        max_length=10,
        choices=UniqueFor,
        null=True,
        blank=True,
        db_comment="How long it holds the unique key: unfinished (until it ends), "
        "waiting (until its first attempt) or period. NULL: it has none.",
    )
    unique_until = models.DateTimeField(
        _("unique until"),
        null=True,
        blank=True,
        db_comment="End of the period for which it holds the unique key. NULL: no "
        "period, or the key is free again.",
    )
    # See database/functions/admission/admit.sql.
    line = models.TextField(  # noqa: DJ001
        _("line"),
        null=True,
        blank=True,
        db_comment="The line in which an admission finds it. NULL: no admission has "
        "to look at it.",
    )
    # See queue/meta.py.
    meta = models.JSONField(
        _("meta"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="What it took along from where it was enqueued: a JSON object. "
        "NULL: nothing.",
    )
    error_group = models.BigIntegerField(
        _("group of errors"),
        null=True,
        blank=True,
        db_comment="Id in pgjobs_errorgroup of the error with which it FAILED. NULL: "
        "none.",
    )
    worker_name = models.TextField(  # noqa: DJ001
        _("worker that succeeded"),
        null=True,
        blank=True,
        db_comment="Name of the worker that ran it when it succeeded; pgjobs_attempt "
        "has those of other attempts. NULL: none.",
    )
    batch = models.ForeignKey(
        "pgjobs.Batch",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="jobs",
        db_constraint=False,
        db_index=False,
        verbose_name=_("batch"),
        db_comment="Its batch; a trigger copies the id from keys. NULL: it belongs to "
        "none.",
    )
    # No constraint: a worker that is gone must not hinder the rescue of its jobs.
    worker = models.ForeignKey(
        "pgjobs.Worker",
        models.DO_NOTHING,
        null=True,
        blank=True,
        related_name="jobs",
        db_constraint=False,
        db_index=False,
        verbose_name=_("worker"),
        db_comment="The worker that runs it, whose row may be gone. NULL: it is not "
        "RUNNING.",
    )
    # See features/keeping. A row that SQL inserts has the default.
    keep = models.TextField(  # noqa: DJ001
        _("keep"),
        null=True,
        blank=True,
        db_default="worker",
        db_comment="failed: its success is deleted once nothing needs it. worker: "
        "PGJOBS['KEEP'] of its worker decides. all, NULL: it stays.",
    )
    # See features/chunks/gather.sql.
    chunk = models.JSONField(
        _("call of many jobs"),
        decoder=LenientDecoder,
        null=True,
        blank=True,
        db_comment="Its place in the latest call that it shared with other jobs, as "
        "JSON. NULL: there was none.",
    )

    class Meta:
        abstract = True

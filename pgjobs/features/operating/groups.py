from django.contrib.auth.models import Group, Permission

from ...management.speaking import QuietCommand

VIEWER = (
    "view_job",
    "view_batch",
    "view_attempt",
    "view_event",
    "view_queue",
    "view_schedule",
    "view_subscription",
    "view_taskdefinition",
    "view_worker",
)
OPERATOR = (
    *VIEWER,
    "view_job_arguments",
    "add_job",
    "retry_job",
    "cancel_job",
    "fail_job",
    "run_job_now",
    "pause_queue",
    "change_taskdefinition",
    "run_schedule",
    "pause_schedule",
    "redeliver_event",
    "mute_errorgroup",
    "acknowledge_remark",
    "order_worker",
    "view_auditentry",
)


class Command(QuietCommand):
    help = (
        "Make two groups for the admin, or bring them up to date: one may look at all "
        "but arguments and results, the other may also act, but neither deletes nor "
        "edits. Permissions that the groups have besides are left alone."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--viewer", default="pgjobs viewer", help="its name (default: %(default)s)"
        )
        parser.add_argument(
            "--operator",
            default="pgjobs operator",
            help="its name (default: %(default)s)",
        )

    def handle(self, **options):
        for name, codenames in (
            (options["viewer"], VIEWER),
            (options["operator"], OPERATOR),
        ):
            group, is_new = Group.objects.get_or_create(name=name)
            group.permissions.add(*permissions(codenames))
            verb = "Made" if is_new else "Brought up to date"
            self.stdout.write(f"{verb} the group {name!r}.")


def permissions(codenames: tuple[str, ...]):
    return Permission.objects.filter(
        content_type__app_label="pgjobs", codename__in=codenames
    )

from ...models import Queue
from ..auditing import noting
from ..databases import QueueCommand
from ..parameters import add_database, add_queues, ready_database


class Command(QueueCommand):
    help = "Resume queues that were paused: workers start their jobs again, at once."

    def add_arguments(self, parser):
        add_queues(parser)
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            for name in options["queues"]:
                with noting(alias, "resume", "queue", chosen=name) as entry:
                    changed = entry.number = Queue.objects.filter(name=name).resume()
                if options["verbosity"]:
                    self.stdout.write(
                        f"Resumed {name}." if changed else f"{name} was not paused."
                    )

from ...models import Queue
from ..databases import QueueCommand
from ..parameters import add_database, queue_name, ready_database


class Command(QueueCommand):
    help = "Resume queues that were paused: workers start their jobs again, at once."

    def add_arguments(self, parser):
        parser.add_argument("queues", nargs="+", type=queue_name, metavar="QUEUE")
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]):
            for name in options["queues"]:
                changed = Queue.objects.filter(name=name).resume()
                if options["verbosity"]:
                    self.stdout.write(
                        f"Resumed {name}." if changed else f"{name} was not paused."
                    )

from django.core.management.base import CommandError

from ...management.databases import ALL, QueueCommand
from ...management.parameters import add_database, count, ready_database
from .id_blocks import SIZE, begin_block, block_of


class Command(QueueCommand):
    help = (
        "Show or set the block of ids of a database. Each of several databases needs a "
        f"block of its own, of {SIZE:,} ids, before jobs can move between them."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--block",
            type=count,
            metavar="N",
            help="let the ids of new rows begin with this block",
        )
        add_database(parser, "all shows each")

    def execute(self, *args, **options):
        if options.get("block") is not None and options.get("database") == ALL:
            raise CommandError("--block is that of one database: name it.")
        return super().execute(*args, **options)

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            if options["block"] is not None:
                try:
                    begin_block(alias, options["block"])
                except ValueError as error:
                    raise CommandError(str(error)) from error
            self.stdout.write(f"Block {block_of(alias)}")

"""Write the migration of a release, or print what PostgreSQL runs now.

python -m pgjobs.database freeze 0003_retry_by_batch
python -m pgjobs.database dump
"""

import sys
from argparse import ArgumentParser

from .dump import dump
from .freeze import check, freeze
from .install import HERE


def main() -> None:
    parser = ArgumentParser(prog="python -m pgjobs.database")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("dump", help="print the current program of the database")
    freezing = commands.add_parser("freeze", help="write the migration of a release")
    freezing.add_argument("name", nargs="?", help="a migration, such as 0003_retry")
    freezing.add_argument("--check", action="store_true", help="fail if one is needed")
    freezing.add_argument(
        "--again", action="store_true", help="write the last one, which no database has"
    )
    given = parser.parse_args()
    if given.command == "dump":
        sys.stdout.write(dump())
    elif given.check == bool(given.name):
        freezing.error("Give either a name or --check.")
    elif given.check:
        check(HERE.parent)
    else:
        freeze(given.name, HERE.parent, given.again)


if __name__ == "__main__":
    main()

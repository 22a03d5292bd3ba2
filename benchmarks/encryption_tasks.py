"""One body twice: with plain arguments, and with two encrypted ones."""

from decimal import Decimal

from pgjobs import task


@task
def plain(iban: str, owner: str, amount: Decimal):
    pass


@task(encrypted=("iban", "owner"))
def encrypted(iban: str, owner: str, amount: Decimal):
    pass

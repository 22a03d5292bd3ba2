"""`python -m pgjobs.database freeze NAME`: write the migration of a release."""

from .freeze import main

main()

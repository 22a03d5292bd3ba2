from tests.support.second_database import start, two_databases  # noqa: F401

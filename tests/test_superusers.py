"""What is to find out that a superuser has worked finds it."""

import psycopg

from tests import harness
from tests.processes import database_url, wait_for
from tests.settings import TEST_DATABASE
from tests.support.superusers import Watch


def test_watch_sees_a_superuser_who_has_not_the_name_of_the_harness(db):
    with Watch(known="nobody") as watch:
        harness.execute("SELECT 'worked'")
        wait_for(lambda: "SELECT 'worked'" in " ".join(watch.found))
    (seen,) = (each for each in watch.found if "'worked'" in each)
    assert seen.endswith(f" as tests.harness in {TEST_DATABASE}: SELECT 'worked'")


def test_watch_passes_over_the_harness_and_over_ordinary_roles(db):
    owner = database_url().replace("/postgres", f"/{TEST_DATABASE}")
    with Watch() as watch, psycopg.connect(owner) as own:
        harness.execute("SELECT 'worked'")
        own.execute("SELECT 'worked'")
        looks = watch.looks
        wait_for(lambda: watch.looks > looks + 1, "it has looked")
    assert "'worked'" not in " ".join(watch.found)

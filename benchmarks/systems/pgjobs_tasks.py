"""pgjobs as the backend of django.tasks: the same worker, Django's own `@task`."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings_of_tasks"

from benchmarks.systems import pgjobs  # sets Django up

from benchmarks.systems import django_core_tasks  # isort: skip

setup = pgjobs.setup
unfinished = pgjobs.unfinished
fill = pgjobs.fill
work = pgjobs.work
enqueue = django_core_tasks.enqueue
enqueue_many = django_core_tasks.enqueue_in_transaction

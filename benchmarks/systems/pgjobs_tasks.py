"""pgjobs as the backend of django.tasks: the same worker, Django's own `@task`."""

from benchmarks.systems import pgjobs  # sets Django up

from benchmarks.systems import django_core_tasks  # isort: skip

setup = pgjobs.setup
unfinished = pgjobs.unfinished
fill = pgjobs.fill
work = pgjobs.work
enqueue = django_core_tasks.enqueue
enqueue_many = django_core_tasks.enqueue_in_transaction

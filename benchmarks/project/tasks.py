from benchmarks import tasks
from pgjobs import task

TASKS = {"noop": task(tasks.noop), "stamp": task(tasks.stamp)}

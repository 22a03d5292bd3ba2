"""procrastinate: async tasks, LISTEN/NOTIFY."""

import os

import procrastinate
import psycopg

from benchmarks import tasks

URL = os.environ["DATABASE_URL"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.task(name="noop")
async def noop(number):
    tasks.noop(number)


@app.task(name="stamp")
async def stamp(number):
    tasks.stamp(number)


TASKS = {"noop": noop, "stamp": stamp}
connection = psycopg.connect(URL, autocommit=True)
UNFINISHED = """
SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')
"""


def setup():
    with app.open():
        app.schema_manager.apply_schema()


def enqueue(task, number):
    app.open()
    TASKS[task].defer(number=number)


def enqueue_many(task, numbers):
    app.open()
    TASKS[task].batch_defer(*[{"number": number} for number in numbers])


def unfinished():
    return connection.execute(UNFINISHED).fetchone()[0]


def work():
    app.run_worker(concurrency=10, fetch_job_polling_interval=5)

"""The tasks of benchmarks/chunks.py."""

from dataclasses import dataclass

from pgjobs import Chunk, task


@dataclass
class Item:
    pk: int


@task(name="benchmarks.one")
def one(pk: int):
    pass


@task(name="benchmarks.many", chunk=500)
def many(calls: Chunk[Item]):
    pass


@task(name="benchmarks.poisoned", chunk=500, on_chunk_error="bisect", max_attempts=1)
def poisoned(calls: Chunk[Item]):
    if any(call.args.pk == 0 for call in calls):
        raise ValueError("poison")

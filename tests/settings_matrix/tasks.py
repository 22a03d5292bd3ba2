from datetime import timedelta

from pgjobs import current_job, schedule, subscribe, task

SNOWMAN = "snowman ☃"


@task
def greet(name: str) -> str:
    current_job().log(f"Hello {name} {SNOWMAN}")
    current_job().progress(1, 2)
    return f"Hello {name}"


@task(max_attempts=1)
def melt() -> None:
    raise ValueError(SNOWMAN)


@task
def note_order(order: str) -> None:
    pass


@schedule(every=timedelta(seconds=1))
@task
def tick() -> None:
    pass


@schedule(cron="0 3 * * *", timezone="Europe/Berlin")
@task
def tidy() -> None:
    pass


@subscribe("order.paid")
@task
def pack(order: int) -> None:
    pass

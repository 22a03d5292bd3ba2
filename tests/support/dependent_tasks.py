"""A chain of tasks that depend on each other, each of which notes that it ran."""

from pgjobs import Dependency, same, task
from tests.tasks import hold, write


@task(max_attempts=1)
def refresh_client(path: str, client: int):
    write(path, f"refresh {client}")


@task(
    max_attempts=1,
    dependencies=Dependency(refresh_client, hours=1, path=same, client=same),
)
def generate_client(path: str, client: int, month: str = "latest"):
    write(path, f"generate {client}")


@task(
    max_attempts=1,
    dependencies=Dependency(generate_client, hours=2, path=same, client=same),
)
def send_client(path: str, client: int, email: str = ""):
    write(path, f"send {client}")


@task
def prepare(path: str):
    """Note that it has begun, wait until the test lets go, and note its end."""
    hold.function(path)
    write(path, "prepared")


@task(dependencies=Dependency(prepare, hours=1, path=same))
def use(path: str, number: int = 0):
    write(path, "used")


@task(dependencies=Dependency(prepare.using(queue_name="side"), path=same))
def use_on_the_side(path: str):
    pass


@task(max_attempts=1)
def break_down(path: str):
    write(path, "broke")
    raise ValueError("no")


@task(dependencies=Dependency("tests.break_down", path=same))
def need_what_breaks(path: str):
    write(path, "never")


@task(dependencies=Dependency("tests.need_what_breaks", path=same))
def need_that(path: str):
    write(path, "never")


@task(unique=True)
def only_one(number: int):
    pass


@task(dependencies=Dependency(only_one, number=same, minutes=1))
def need_only_one(number: int, other: int = 0):
    pass

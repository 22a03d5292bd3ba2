"""A task of each kind, which tells the tenant that surrounds it."""

from pgjobs import task
from tests.telemetry import hooks


@task
def tell_tenant() -> str:
    hooks.seen.append("runs")
    return hooks.tenant.get("none")


@task
async def tell_tenant_async() -> str:
    hooks.seen.append("runs")
    return hooks.tenant.get("none")


@task(atomic=True)
def tell_tenant_atomically() -> str:
    hooks.seen.append("runs")
    return hooks.tenant.get("none")

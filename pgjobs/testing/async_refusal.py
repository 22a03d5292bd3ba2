"""What only synchronous code may call."""

import asyncio


def refuse_event_loop(name: str) -> None:
    """Raise RuntimeError on a running event loop, and name what to call there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{name}() was called in async code: `await a{name}(...)` there."
    )

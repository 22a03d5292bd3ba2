from ..pausing import PauseCommand as Command

__all__ = ["Command"]

from ...features.operating.queues import PauseCommand as Command

__all__ = ["Command"]

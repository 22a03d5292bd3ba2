from ...features.operating.queues import Command

__all__ = ["Command"]

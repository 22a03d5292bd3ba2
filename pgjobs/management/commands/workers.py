from ...features.workers.command import Command

__all__ = ["Command"]

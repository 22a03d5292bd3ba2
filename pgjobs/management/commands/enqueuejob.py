from ..enqueuejob import Command

__all__ = ["Command"]

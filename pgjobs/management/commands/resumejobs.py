from ...features.operating.queues import ResumeCommand as Command

__all__ = ["Command"]

from ...features.operating.enqueuing import Command

__all__ = ["Command"]

from ...features.operating.status import Command

__all__ = ["Command"]

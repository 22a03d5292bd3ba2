from ...features.operating.groups import Command

__all__ = ["Command"]

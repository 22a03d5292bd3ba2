from ...features.operating.pruning import Command

__all__ = ["Command"]

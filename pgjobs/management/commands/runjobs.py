from ..runjobs import Command

__all__ = ["Command"]

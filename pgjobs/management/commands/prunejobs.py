from ..prunejobs import Command

__all__ = ["Command"]

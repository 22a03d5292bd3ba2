from ...features.operating.pausing import PauseCommand as Command

__all__ = ["Command"]

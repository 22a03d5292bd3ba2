"""The process around a worker: its supervisor, its pipe and its HTTP port."""

"""One adapter for each system; see benchmarks/adapter.py for what it must offer."""

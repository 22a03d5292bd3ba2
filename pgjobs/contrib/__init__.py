"""What joins pgjobs to tools that a project may have: imported only if it does."""

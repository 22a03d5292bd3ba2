"""What everything else stands on: time, JSON, text, connections, transactions."""

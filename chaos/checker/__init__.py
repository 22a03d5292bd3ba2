"""The independent checker: it imports nothing of pgjobs, and reads only evidence."""

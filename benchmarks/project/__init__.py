"""The Django project that pgjobs is measured in."""

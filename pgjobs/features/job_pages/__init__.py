"""The pages of jobs: filters in a bar, completion, exports, and what people did.

Guide: `docs/admin.md`.
"""

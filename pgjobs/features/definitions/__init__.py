"""Definitions: what the database knows of the tasks that code declares.

SQL checks arguments by them, and the admin makes forms of them. Beside each other run
several versions of the code: the newest that declares a task decides.

Guide: `docs/sql.md`.
"""

"""The kit with which projects test their tasks, and the mode "inline".

Guide: `docs/testing.md`.
"""

"""The tests, in order of their parts. Each names its place in the documentation.

`topics` is "Django's Tasks framework", `ref` is the reference "Tasks", `signals` the
reference of signals, `settings` that of settings.
"""

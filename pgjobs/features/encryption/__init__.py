"""Arguments, results, steps and answers that only workers with a key can read.

See docs/guides/encryption.md, and docs/architecture/encryption.md for how it works.
"""

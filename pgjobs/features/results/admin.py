"""On the page of a job: whose results its arguments are, beside its predecessors."""

from .origins import KEYS

JOB_KEYS = KEYS

"""Deletes batches that have lost all their jobs."""

from ...queue.upkeep import prune_batches
from ...worker.upkeep.pruning import Prune, RoundStep

CHORES = (Prune("prune_batches", RoundStep, prune_batches, "batches"),)

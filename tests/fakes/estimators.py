"""Estimators that have a value for an answer without a reasoning before it."""

from models.estimators import ESTIMATORS, needs
from models.statistics import supplied_by

_OF_REASONINGS = supplied_by("reasoning")
OF_ANSWERS = tuple(name for name in ESTIMATORS if needs([name]).isdisjoint(_OF_REASONINGS))

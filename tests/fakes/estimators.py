"""Estimators that have a value for an answer without a reasoning before it."""

from models.estimators import ESTIMATORS, needs
from models.statistics import supplied_by

_OF_REASONINGS = supplied_by("reasoning")
# Of documents, which a request without any has none of.
OF_DOCUMENTS = supplied_by("parts") | {"closed_book_token_logprobs"}
OF_ANSWERS = tuple(name for name in ESTIMATORS if needs([name]).isdisjoint(_OF_REASONINGS))
WITHOUT_DOCUMENTS = [name for name in OF_ANSWERS if needs([name]).isdisjoint(OF_DOCUMENTS)]

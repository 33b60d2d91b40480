"""Client of cocoa-serve: answers of a language model, with how sure it is of them."""

from cocoa_client.asynchronous import AsyncAnswerStream, AsyncClient
from cocoa_client.client import AnswerStream, Client
from cocoa_client.core import ScoreItem
from cocoa_client.errors import CocoaError
from cocoa_client.models import FeedbackKept, GenerateResponse, ScoreOutcome, Token, UnitInfo
from cocoa_client.results import BatchOutcome, Progress, Results, read_results, to_df
from cocoa_client.units import (
    fields_of,
    rejected_units,
    statements_of,
    units_by_uncertainty,
    value_of,
)

__all__ = [
    "AnswerStream",
    "AsyncAnswerStream",
    "AsyncClient",
    "BatchOutcome",
    "Client",
    "CocoaError",
    "FeedbackKept",
    "GenerateResponse",
    "Progress",
    "Results",
    "ScoreItem",
    "ScoreOutcome",
    "Token",
    "UnitInfo",
    "fields_of",
    "read_results",
    "rejected_units",
    "statements_of",
    "to_df",
    "units_by_uncertainty",
    "value_of",
]

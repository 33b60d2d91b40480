"""The root of all errors that a call can end in."""

from collections.abc import Sequence
from typing import ClassVar

from cocoa_client.models import Fault


class CocoaError(Exception):
    """Root of all errors; itself only for a code that this client does not know.

    Attributes:
        code: stable, for programs.
        message: for people; never holds a prompt, an answer or a key.
        field: dotted path of the field at fault, where there is one.
        details: the first faults of an invalid body.
        request_id: by which the logs of the service know the request, where it answered.
        status: HTTP status, where it answered.
        retry_after_s: seconds after which a repetition may succeed, where the service said so.
    """

    default_code: ClassVar[str] = "unknown"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        details: Sequence[Fault] = (),
        request_id: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.field = field
        self.details = tuple(details)
        self.request_id = request_id
        self.status = status
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """Code, field and message."""
        named = self.code if self.field is None else f"{self.code}, {self.field}"
        return f"{named}: {self.message}"

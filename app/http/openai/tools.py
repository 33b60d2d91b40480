"""Calls of tools in an answer that is streamed."""

from collections.abc import Sequence

from models.units.tool_calls import Call, num_settled, segments


class CallStream:
    """An answer that grows: the same texts and calls that `parted` finds in the whole one.

    Args:
        names: of the tools that there are.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pending = ""
        self._is_start = True
        self._in_text = False
        self._has_text = False

    def add(self, text: str) -> list[str | Call]:
        """What became certain with a further text."""
        self._pending += text
        settled = num_settled(self._pending, is_start=self._is_start)
        if not settled:
            return []
        text, self._pending = self._pending[:settled], self._pending[settled:]
        return self._told(text)

    def finish(self) -> list[str | Call]:
        """The rest."""
        text, self._pending = self._pending, ""
        return self._told(text)

    def _told(self, text: str) -> list[str | Call]:
        found = segments(text, self._names if self._is_start else ())
        self._is_start = False
        told: list[str | Call] = []
        for i, one in enumerate(found):
            if isinstance(one, Call):
                self._in_text = False
                told.append(one)
                continue
            if i + 1 < len(found) or not self._pending:
                one = one.rstrip()
            if not self._in_text:
                one = one.lstrip()
            if not one:
                continue
            if self._has_text and not self._in_text:
                one = f"\n{one}"
            self._in_text = self._has_text = True
            told.append(one)
        return told

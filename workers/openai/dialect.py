"""How one server is spoken to: what it calls otherwise, and what its refusals teach. Pure.

A refusal that names a parameter has it renamed, lowered or left out; one that names none has what
the server has never taken left out. What is learnt holds once a call has gone through with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workers.calls import Rejected
from workers.openai.profiles import NEUTRAL, Profile

# The codes by which servers say that a prompt is too long; the second one is llama.cpp's.
TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_RENAMED = {"max_tokens": "max_completion_tokens"}
_LAW = ("temperature", "top_p", "stop")
_EXTRAS = ("top_k", *NEUTRAL)
_LOGPROBS = ("logprobs", "top_logprobs")
# How many likeliest tokens to ask for where more are refused; None for no log-probs at all.
_FEWER: Mapping[int | None, int | None] = {20: 10, 10: 5, 5: 1, 1: 0, 0: None}
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is known of it by now.

    Attributes:
        prefix: of paths, in place of `/v1`.
        names: parameters that it calls otherwise; "" for one that it does not take.
        tops: the most likeliest tokens that it tells; None for no log-probs.
        most_samples: of one call; 0 for any number.
        taken: parameters that it has taken.
    """

    prefix: str
    names: Mapping[str, str]
    tops: int | None
    most_samples: int = 0
    taken: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def of(cls, profile: Profile) -> "Dialect":
        """That of a kind of server, before it has said anything."""
        return cls(profile.prefix, profile.names, profile.logprobs, profile.max_samples)

    def takes(self, name: str) -> bool:
        """Whether it may be sent this parameter."""
        return self.names.get(name) != ""

    def spoken(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A body as the server takes it."""
        said: dict[str, Any] = {}
        for name, value in body.items():
            if name in _LOGPROBS and self.tops is None:
                continue
            if name in _LOGPROBS and value is not True:
                value = min(value, max(self.tops or 0, _columns(body)))
            if (known := self.names.get(name, name)) and (name, value) != ("top_logprobs", 0):
                said[known] = value
        return said

    def after(self, body: Mapping[str, Any]) -> "Dialect":
        """The same once it has taken a body."""
        new = {name for name in body if self.takes(name)} - self.taken
        return replace(self, taken=self.taken | new) if new else self

    def taught(self, refusal: Rejected, body: Mapping[str, Any]) -> "Dialect | None":
        """What may go through instead; None where the refusal teaches nothing of the dialect.

        Args:
            refusal: of `body` as it was spoken.
            body: as it was meant.
        """
        if refusal.code in TOO_LONG or refusal.status not in (400, 403, 422):
            return None
        meant = {new or name: name for name, new in self.names.items()}
        named = {meant.get(name, name) for name in refusal.named} & body.keys()
        for name in sorted(named):
            if (learnt := self._without(name, refusal.code, body)) is not None:
                return learnt
        if refusal.status == 403 or not refusal.named:
            return self._without_new(refusal, body)
        return None

    def _without(self, name: str, code: str, body: Mapping[str, Any]) -> "Dialect | None":
        """What takes no parameter of this name."""
        if name in _LOGPROBS:
            unsupported: int | None = 0 if name == "top_logprobs" else None
            return self._with_fewer_tops(body, code in _UNSUPPORTED, unsupported)
        if name in self.names or name not in (*_RENAMED, *_LAW, *_EXTRAS, "seed"):
            return None
        is_of_value = name in self.taken or (name == "temperature" and body[name] > 1.0)
        if is_of_value and code not in _UNSUPPORTED:  # some take no temperature above 1
            return None
        return replace(self, names={**self.names, name: _RENAMED.get(name, "")})

    def _without_new(self, refusal: Rejected, body: Mapping[str, Any]) -> "Dialect | None":
        """What leaves out something that it has never taken."""
        new = {name for name in body.keys() - self.taken if self.takes(name)}
        if refusal.status == 403:
            return self._with_fewer_tops(body, True)
        if extras := new.intersection(_EXTRAS):
            return replace(self, names={**self.names, **dict.fromkeys(extras, "")})
        if "seed" in new:
            return self._without("seed", "", body)
        return self._with_fewer_tops(body, False) if new.intersection(_LOGPROBS) else None

    def _with_fewer_tops(
        self, body: Mapping[str, Any], is_unsupported: bool, left: int | None = None
    ) -> "Dialect | None":
        """What asks for fewer likeliest tokens, or for what is `left` without any."""
        sent = self.spoken(body)
        if "logprobs" not in sent:
            return None
        told = sent.get("top_logprobs", 0 if sent["logprobs"] is True else sent["logprobs"])
        fewer = _FEWER.get(told, 20 if told > 20 else None)
        return replace(self, tops=left if is_unsupported else fewer)


class Tongue:
    """The dialect of one server, which all its calls share.

    Attributes:
        dialect: as far as it is known by now.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def draws_at_most(self, num: int) -> None:
        """Remember that one call draws no more samples than these."""
        most = self.dialect.most_samples or num
        self.dialect = replace(self.dialect, most_samples=min(most, num))


def _columns(body: Mapping[str, Any]) -> int:
    """How many columns of vLLM's plugin a body asks for, which no dialect lowers."""
    return int(body.get("logprobs") or 0) if "vllm_xargs" in body else 0

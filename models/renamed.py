"""Names of release 0.2, which requests and stored files may hold for one release more."""

from typing import Annotated

from pydantic import BeforeValidator

_OLD = {"consistency", "consistency_light", "rb_consistency", "sentence_consistency"}


def current_name(name: str) -> str:
    """The name that a score, or the target of a probe, has now.

    >>> current_name("rb_consistency"), current_name("sp")
    ('rb_inconsistency', 'sp')
    """
    if name in _OLD:
        return name.replace("consistency", "inconsistency")
    return name


ScoreName = Annotated[str, BeforeValidator(current_name)]

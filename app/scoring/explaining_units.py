"""Pure: which sentences or claims are shaky, and what samples say instead, in one sentence."""

from app.scoring.explaining import SAME, short
from app.scoring.units import ScoredUnits
from models.units.unit import denied_by, support

_MAX_NAMED = 3


def shaky_units(units: ScoredUnits) -> str:
    """One sentence: so many sentences or claims lack support, and the least supported ones."""
    shaky: list[tuple[float, str]] = []
    num_compared, kind = 0, "sentence"
    for one in units.units[1:]:
        kind, mean = one.unit.kind, support(one.unit)
        if mean is None or one.unit.supports is None:
            continue
        num_compared += 1
        if mean < SAME:
            num_samples = len(one.unit.supports)
            denied = f"support {mean:.2f}"
            if one.unit.contradictions is not None:
                denied = f"denied by {len(denied_by(one.unit))} of {num_samples} samples"
            for said, share in list(one.unit.alternatives.items())[:1]:
                denied += f': "{short(said or "")}" ({round(share * num_samples)})'
            shaky.append((mean, f'"{short(one.unit.text)}" ({denied})'))
    if not num_compared:
        return f"No {kind} is compared with samples."
    if not shaky:
        return f"The samples support each {kind}."
    shaky.sort(key=lambda one: one[0])
    named = ", ".join(text for _, text in shaky[:_MAX_NAMED])
    if len(shaky) > _MAX_NAMED:
        named += f", and {len(shaky) - _MAX_NAMED} more"
    return f"Shaky: {len(shaky)} of {num_compared} {kind}s, {named}."

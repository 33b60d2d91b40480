"""Probes that a deployment knows by their cards, wherever they are evaluated."""

from collections.abc import Mapping
from pathlib import Path

from models.embedded import PROBES_DIR
from models.errors import ModelNotLoaded
from models.probes.card import STATISTIC, ProbeMismatch, read_card
from models.probes.protocol import ProbeConfig
from workers.config import probe_folders, variable
from workers.protocol import ProbeInfo


def known_probes(config: ProbeConfig) -> Mapping[str, ProbeInfo]:
    """By the statistic that each predicts; "auto" is the embedded one.

    Raises:
        ModelNotLoaded: a folder holds no card of such a probe.
    """
    probes = {}
    for target, setting, folder in probe_folders(config):
        if not folder:
            continue
        path = PROBES_DIR / target if folder == "auto" else Path(folder)
        try:
            card = read_card(path / "card.json")
        except ProbeMismatch as error:
            raise ModelNotLoaded(f"{variable(setting)}: {error}") from None
        if card.target != target:
            raise ModelNotLoaded(f"{variable(setting)}: the probe predicts {card.target}")
        probes[STATISTIC[target]] = ProbeInfo.of(card)
    return probes

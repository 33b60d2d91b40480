"""The states of a run's prompts, and the kinds of prompts that a calibrator knows by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from app.scoring.ask import Ask
from app.scoring.plan import generation_request
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.labels import prompts_of
from cocoa_lab.distances import fit_distance
from models.probes.domain import Distance, PromptDomain
from models.records import Array
from workers.protocol import Generator, GeneratorInfo

STATES = "prompt_states.npz"
MIN_PROMPTS = 200
_MAX_KINDS, _PROMPTS_A_KIND = 8, 400
# Fewer held-out prompts of a kind say little about where its farthest hundredth begins.
_MIN_HELD_OUT = 40
# States behind which a file is written: a run that is killed loses fewer.
_WRITTEN_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class PromptStates:
    """States of prompts at their last tokens.

    Attributes:
        generator: identity of the language model.
        layer: k of `hidden_states[k]`.
        by_id: prompt's id to its state (d,).
    """

    generator: str
    layer: int
    by_id: Mapping[str, Array]


def layer_of(generator: GeneratorInfo) -> int:
    """The middle block, whose states are read; 0 where the model shows none."""
    if generator.num_layers < 2:
        return 0
    return min((generator.num_layers + 1) // 2, generator.num_layers - 1)


class StatesFile:
    """A file of the states of prompts, which an interrupted run continues.

    It is written anew after every so many states, and by `write`. A model that shows no states has
    no file.

    Args:
        path: of the file; states of another model in it are dropped.
        generator: reads the prompts; each costs a prefill.
    """

    def __init__(self, path: Path, generator: Generator) -> None:
        self._path = path
        self._generator = generator
        self._layer = layer_of(generator.info)
        wanted = PromptStates(generator.info.identity, self._layer, {})
        self._by_id = dict(_kept(path, wanted).by_id) if self._layer else {}
        self._num_new = 0

    async def keep(self, name: str, ask: Ask) -> None:
        """The state of one prompt, where the file has none of this id."""
        if not self._layer or name in self._by_id:
            return
        request = generation_request(ask, frozenset())
        sampling = replace(request.sampling, max_new_tokens=1)
        request = replace(request, sampling=sampling, prompt_layer=self._layer)
        generation = await self._generator.generate(request)
        self._by_id[name] = np.asarray(generation.prompt_state, dtype=np.float16)
        self._num_new += 1
        if self._num_new % _WRITTEN_AT_ONCE == 0:
            self.write()

    def write(self) -> None:
        """Write what there is."""
        if self._num_new:
            found = PromptStates(self._generator.info.identity, self._layer, self._by_id)
            _write(self._path, found)


def _kept(path: Path, wanted: PromptStates) -> PromptStates:
    """What the file has of this model and layer."""
    if path.exists():
        kept = read_states(path)
        if (kept.generator, kept.layer) == (wanted.generator, wanted.layer):
            return kept
    return wanted


def _write(path: Path, found: PromptStates) -> None:
    ids, states = np.array(list(found.by_id)), np.stack(list(found.by_id.values()))
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, generator=found.generator, layer=found.layer, ids=ids, states=states)
    partial.replace(path)


def read_states(path: Path) -> PromptStates:
    """What a `StatesFile` wrote.

    Raises:
        OSError, ValueError, LookupError: there is no such file, or it is none.
    """
    with np.load(path) as arrays:
        ids, states = arrays["ids"].tolist(), arrays["states"]
        by_id = dict(zip(ids, states, strict=True))
        return PromptStates(str(arrays["generator"]), int(arrays["layer"]), by_id)


def domain_of(folders: Sequence[Path]) -> PromptDomain:
    """The kinds of prompts of some runs of `cocoa evaluate`.

    Raises:
        CannotCalibrate: a run has no states of prompts, or they are of different models or too few.
    """
    if not folders:
        raise CannotCalibrate("labels of POST /feedback have no states of their prompts")
    runs, states = [], list[Array]()
    for folder in folders:
        try:
            run = read_states(folder / STATES)
        except (OSError, ValueError, LookupError):
            raise CannotCalibrate(f"{folder} holds no states of its prompts") from None
        prompts = prompts_of(folder)
        by_prompt: dict[str, Array] = {}  # lines of one prompt may differ by rounding
        for name, state in run.by_id.items():
            by_prompt.setdefault(prompts.get(name, name), state)
        runs.append(run)
        states += by_prompt.values()
    if len({(one.generator, one.layer) for one in runs}) != 1:
        raise CannotCalibrate("the runs are of different models")
    # A prompt that was asked as a chat, too, must not be held out and known at once.
    different = np.unique(np.stack(states), axis=0)
    if len(different) < MIN_PROMPTS:
        raise CannotCalibrate(f"{len(different)} prompts are fewer than {MIN_PROMPTS}")
    kinds = kinds_of(different.astype(np.float64))
    return PromptDomain(runs[0].generator, runs[0].layer, kinds)


def kinds_of(states: Array) -> tuple[Distance, ...]:
    """Distances from up to eight kinds of prompts, found by k-means, in a fixed order.

    One distance from all prompts would let pass what lies between two kinds. A quarter of the
    prompts is held out, for the percentiles.

    states: (N, d), N at least `MIN_PROMPTS`.
    """
    from sklearn.cluster import KMeans

    held_out, training = np.split(
        states[np.random.default_rng(0).permutation(len(states))], [len(states) // 4]
    )
    for number in range(min(_MAX_KINDS, len(states) // _PROMPTS_A_KIND), 1, -1):
        means = KMeans(number, n_init=10, random_state=0).fit(training)
        of_held_out = means.predict(held_out)
        if np.bincount(of_held_out, minlength=number).min() >= _MIN_HELD_OUT:
            kinds = []
            for kind in range(number):
                rows = training[means.labels_ == kind], held_out[of_held_out == kind]
                kinds.append(_trimmed(*rows))
            return tuple(kinds)
    return (_trimmed(training, held_out),)


def _trimmed(training: Array, held_out: Array) -> Distance:
    """A distance from all but the farthest twentieth of the training rows.

    A few prompts of another sort would otherwise widen it towards themselves. Rousseeuw 1984.
    """
    far = fit_distance(training, held_out).of(training)
    return fit_distance(training[far <= np.percentile(far, 95)], held_out)

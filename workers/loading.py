"""Loading the models of this process; the only reader of ENGINES and of the tables of pair models.

All of it blocks; `workers.build` says which models are of this process.
"""

import logging
import os
import sys
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from models.calibration import Calibrator
from models.embedded import CALIBRATOR_PATH, LANGUAGE_MODELS, PROBED, PROBES_DIR
from models.engines import ENGINES
from models.engines.protocol import EngineConfig, EngineInfo
from models.errors import ModelNotLoaded
from models.lasting import keep_freed_memory, lasting
from models.locations import public_name
from models.others import SIMILARITIES
from models.probes.card import check_card
from models.probes.domain import PromptDomain, beside
from models.probes.protocol import Probe, ProbeConfig
from models.similarity import LEARNED, NLI_MODELS, OVER_NLI, PAIR_MODELS, not_known
from models.similarity.pairs import PairRules
from models.similarity.protocol import NliConfig, NliPairModel
from models.threads import ModelThread
from workers.config import LanguageModel, Role, SimilaritySettings, WorkerConfig, variable
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.protocol import Generator, NliScorer, SimilarityScorer
from workers.similarity import NliWorker, SimilarityWorker

logger = logging.getLogger(__name__)

_CHECK = "models.loadable:check_checkpoint"
_IS_EMBEDDING = "models.loadable:is_embedding_model"
_PROBE = "models.probes.probe:TrainedProbe"
_DEVICE = "models.checkpoints:pick_device"
_ENTAILMENT = "models.similarity.nli:EntailmentModel"
# A container's limit: the processor time allowed in a period, both in microseconds.
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def load_generator(config: WorkerConfig, hooks: Hooks) -> GenerationWorker:
    """The language model of this process and its probes; blocks."""
    generation = config.generation
    with _loading("generation.model", generation.model):
        load = resolve(ENGINES[generation.engine]).load  # torch is there before its thread begins
        threads = generation.threads or _num_threads(config)
        logger.info("threads of the language model: %d", threads)
        thread = _thread("generation", threads)
        # Compiled code is bound to the intra-op threads of the thread that compiles it.
        engine = thread.submit(load, generation).result()
        _compute_on(1)
    return GenerationWorker(
        engine,
        _load_probes(config.probes, generation, engine.info),
        _load_domain(config.calibrator, engine.info),
        model_thread=thread,
        text_thread=_thread("texts", 1),
        on_step=hooks.on_step,
        caller=hooks.tenant,
    )


def load_similarity_scorers(
    config: WorkerConfig,
    hooks: Hooks,
    language_model: LanguageModel,
    given: Mapping[str, SimilarityScorer] | None = None,
    generator: Generator | None = None,
) -> tuple[dict[str, SimilarityScorer], NliScorer | None]:
    """The similarity functions of this process by name, and its NLI model; blocks.

    generator: whose language model the pair models may have to share the cores with.
    """
    similarity = config.similarity
    similarity_scorers: dict[str, SimilarityScorer] = dict(given or {})
    nli_model = _load_nli(config.nli, language_model)
    thread = _thread("similarity", similarity.threads or _num_threads(config))
    given_to_all: dict[str, Any] = {
        "rules": PairRules.of(OVER_NLI, similarity),
        "thread": thread,
        "max_batch_pairs": similarity.max_batch_pairs,
        "on_batch": hooks.on_batch,
    }
    if isinstance(generator, GenerationWorker) and _have_same_cores(config, language_model):
        given_to_all["thread"] = generator.model_thread
    nli: NliScorer | None = None
    if nli_model is not None:
        is_foreign = _is_out_of_domain("nli", config.nli.model, language_model)
        nli = NliWorker(nli_model, is_out_of_domain=is_foreign, **given_to_all)
        entailment = resolve(_ENTAILMENT)(nli_model, config.nli.similarity)
        options = {**given_to_all, "is_out_of_domain": is_foreign}
        similarity_scorers[OVER_NLI] = SimilarityWorker(entailment, **options)
    pair_models = {**PAIR_MODELS, **SIMILARITIES}
    default = default_similarity(similarity, language_model, similarity_scorers)
    for name in ("added", *SIMILARITIES, default):
        if name in similarity_scorers:
            continue
        setting, model = "similarity.model", similarity.model
        if name not in PAIR_MODELS:
            setting, model = "similarity.name", name
        with _loading(setting, model):
            pair_model = _load(pair_models[name], similarity)
        is_foreign = False
        if name == "cross_encoder":
            is_foreign = _is_out_of_domain("similarity", similarity.model, language_model)
        options = {**given_to_all, "rules": PairRules.of(name, similarity)}
        if pair_model.revision is None:  # words alone, which need no core of the language model's
            options["thread"] = thread
        similarity_scorers[name] = SimilarityWorker(
            pair_model, is_out_of_domain=is_foreign, **options
        )
    return similarity_scorers, nli


def default_similarity(
    similarity: SimilaritySettings,
    language_model: LanguageModel,
    similarity_scorers: Mapping[str, SimilarityScorer] | None = None,
) -> str:
    """The name of the similarity function of requests that name none."""
    if similarity.name != "auto":
        return similarity.name
    loaded = similarity_scorers or {}
    if "embedding" in loaded:
        return "embedding"
    is_foreign = is_shipped = similarity.model == SimilaritySettings().model
    if "cross_encoder" in loaded:
        is_foreign = loaded["cross_encoder"].info.is_out_of_domain
    if is_foreign and not language_model.is_embedded:
        return "added"
    if similarity.url or is_shipped:
        return "cross_encoder"
    with _loading("similarity.model", similarity.model):
        is_embedding = resolve(_IS_EMBEDDING)(similarity.model, similarity.revision)
    if is_embedding:
        return "embedding"
    return "cross_encoder"


def nli_checkpoint(config: NliConfig, language_model: LanguageModel) -> str:
    """The NLI model to load, "" for none.

    "auto" is the embedded one, for the embedded language models only.
    """
    if config.model != "auto":
        return config.model
    if language_model.is_embedded:
        return "embedded"
    return ""


def resolve(path: str) -> Any:
    """The object that "module:name" names; importing it may take seconds."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def check_settings(
    config: WorkerConfig, language_model: LanguageModel, roles: Container[Role]
) -> None:
    """Refuse what cannot be loaded, before anything is, which may take minutes.

    Raises:
        ModelNotLoaded: a name that no table has, a similarity function whose NLI model is not
            loaded, or a checkpoint that cannot be loaded; names variable, reason and remedy.
    """
    generation, similarity, nli = config.generation, config.similarity, config.nli
    functions = [*PAIR_MODELS, *SIMILARITIES]
    if nli_model := nli_checkpoint(nli, language_model):
        functions.append(OVER_NLI)
    if "generation" in roles:
        check_name("generation.engine", generation.engine, ENGINES)
    if "similarity" in roles:
        check_name("similarity.name", similarity.name, ["auto", *functions])
        check_name("nli.name", nli.name, NLI_MODELS)
    if "generation" in roles and generation.engine == "transformers":
        _check_checkpoint("generation.model", generation.model, generation.revision, "causal")
    if "similarity" not in roles:
        return
    named = default_similarity(similarity, language_model)
    if named == "embedding" and similarity.model == "embedded":
        message = "must name an embedding model: the one that ships with the project is none"
        raise ModelNotLoaded(f"{variable('similarity.model')} {message}")
    if named not in LEARNED and similarity.compare != "auto":
        reason = f"is heeded by {' and '.join(LEARNED)} alone, and answers are compared by {named}"
        raise ModelNotLoaded(f"{variable('similarity.compare')} {reason}")
    if named in LEARNED and not similarity.url:
        head = "classifier"
        if named == "embedding":
            head = "embedding"
        _check_checkpoint("similarity.model", similarity.model, similarity.revision, head)
    if nli.name == "nli":
        _check_checkpoint("nli.model", nli_model, nli.revision, "classifier")


def check_name(setting: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is none of those that are known."""
    if name not in known:
        raise ModelNotLoaded(f"{variable(setting)} is {name!r}, and {not_known(name, known)}")


def _check_checkpoint(setting: str, model: str, revision: str | None, head: str) -> None:
    shipped: Container[str] = ("embedded",)
    if head == "causal":
        shipped = LANGUAGE_MODELS
    if model and model not in shipped:
        with _loading(setting, model):
            resolve(_CHECK)(model, revision, head)


def _load_nli(config: NliConfig, language_model: LanguageModel) -> NliPairModel | None:
    checkpoint = nli_checkpoint(config, language_model)
    if not checkpoint:
        return None
    with _loading("nli.model", checkpoint):
        model: NliPairModel = _load(NLI_MODELS[config.name], replace(config, model=checkpoint))
    return model


@contextmanager
def _loading(setting: str, model: str) -> Iterator[None]:
    """Whatever goes wrong within is one line with the variable, the model and the reason."""
    name = public_name(model)
    try:
        with lasting():
            yield
    except ModelNotLoaded as error:
        raise ModelNotLoaded(f"{variable(setting)}={name}: {error}") from None
    except ModuleNotFoundError as error:
        raise ModelNotLoaded(f"{error}: pip install '.[models]' in the checkout") from None
    except Exception as error:
        [line, *_] = [*str(error).splitlines(), ""]
        reason = line.replace(model, name)
        # Texts of other errors are no sentences, such as the name of a key.
        if not reason or not isinstance(error, OSError | ValueError):
            reason = f"{type(error).__name__}: {reason}"
        raise ModelNotLoaded(f"{variable(setting)}={name} cannot be loaded: {reason}") from error


def _is_out_of_domain(
    group: Literal["nli", "similarity"], model: str, language_model: LanguageModel
) -> bool:
    """True where an embedded pair model compares answers that it does not know; it is logged."""
    if not language_model.is_unknown_to(model, is_nli=group == "nli"):
        return False
    logger.warning(
        "%s: the embedded pair model does not know the answers of %s, and compares them here: set "
        "it to a model that knows them",
        variable(f"{group}.model"),
        public_name(language_model.name),
    )
    return True


def _load_probes(
    config: ProbeConfig, generation: EngineConfig, engine: EngineInfo
) -> Mapping[str, Probe]:
    """By the statistic that each predicts.

    "auto" is the embedded probe, beside the embedded language model that it was trained for only.
    """
    probes: dict[str, Probe] = {}
    for target, statistic, setting, folder in config.folders():
        if folder == "auto":
            folder = ""
            if generation.model == PROBED[target] and generation.engine == "transformers":
                folder = str(PROBES_DIR / target)
        if not folder:
            continue
        with _loading(setting, folder):
            probe: Probe = resolve(_PROBE).open(Path(folder))
            check_card(
                probe.card,
                target=target,
                model_id=engine.model_id,
                revision=engine.revision,
                dimension=engine.hidden_size,
                num_layers=engine.num_layers,
                statistics=engine.statistics,
            )
        probes[statistic] = probe
    return probes


def _load_domain(calibrator: str, engine: EngineInfo) -> PromptDomain | None:
    """The prompts of a calibrator, which others are compared with.

    None without a calibrator, for one whose labels had no prompts, and beside another language
    model than the embedded calibrator's.
    """
    if not calibrator:
        return None
    path = Path(calibrator)
    if calibrator == "auto":
        path = CALIBRATOR_PATH
    with _loading("calibrator", calibrator):
        if not (sha256 := Calibrator.load(path).prompts):
            return None
        domain = PromptDomain.load(beside(path), sha256)
        if domain.generator == engine.identity:
            return domain
        if calibrator == "auto":
            return None
        raise ModelNotLoaded("its prompts are another language model's")


def _thread(name: str, threads: int) -> ModelThread:
    return ModelThread(name, initializer=_prepare_thread, initargs=(threads,))


def _have_same_cores(config: WorkerConfig, language_model: LanguageModel) -> bool:
    """Whether both kinds of models compute on all cores of a processor, in turn."""
    if config.generation.threads or config.similarity.threads or language_model.is_embedded:
        return False
    return bool(resolve(_DEVICE)(config.generation.device) == "cpu")


def _num_threads(config: WorkerConfig) -> int:
    """Whole cores, at least one; half of them beside an embedded model, which gains by no more.

    The other half is for the other of the two models, here or in its own process.
    """
    cores: float = len(os.sched_getaffinity(0))
    if _CPU_LIMIT.exists():
        allowed, period = _CPU_LIMIT.read_text().split()
        if allowed != "max":
            cores = min(cores, int(allowed) / int(period))
    if LanguageModel.of(config.generation).is_embedded:
        cores /= 2
    return max(1, int(cores))


def _load(path: str, config: Any) -> Any:
    """The pair model of a class that "module:name" names."""
    load = resolve(path).load
    _compute_on(1)
    return load(config)


def _prepare_thread(threads: int) -> None:
    if _compute_on(threads):
        keep_freed_memory()


def _compute_on(threads: int) -> bool:
    """Have torch compute on so many threads what this one computes; False where there is no torch.

    One thread alone computes on several: beside another one that has, even if that one rests, it is
    slower by a quarter (ADR 31).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    torch.set_num_threads(threads)
    torch.get_num_threads()  # else a thread takes what another one has set before its first product
    return True

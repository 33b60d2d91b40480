"""Pure: from a run and its rankings to what the report shows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cocoa_lab import claims, report
from cocoa_lab.claims import Claim
from cocoa_lab.comparison import ByEstimator, Table, is_compared, overall, without
from cocoa_lab.notes import notes
from cocoa_lab.rankings import Rankings
from cocoa_lab.recommendation import recommend, sentence, why_none
from cocoa_lab.report import Gallery, Grid, Report, Shown
from cocoa_lab.run import Run, Variant, with_revision
from models.estimators import known_estimators
from models.records import Array

_NUM_SHOWN = 5
_TITLES = {"prr": "PRR", "auroc": "ROC-AUC"}


def summarise(
    run: Run, rankings: Rankings, plots: Mapping[str, str], command: str, num_resamples: int
) -> Report:
    """The report.

    plots: caption to SVG.
    """
    scores = run.prompts[0].answers[0].scores
    estimator = next(name for name in ("rb_cocoa_root_sp", "cocoa_sp", *scores) if name in scores)
    all_claims: list[Claim] = []
    alternatives: list[Claim] = []
    for strategy in rankings.strategies:
        prrs = without(rankings.tables["prr"][strategy], rankings.left_out)
        all_claims += claims.claims(strategy, prrs)
        alternatives += claims.alternatives(strategy, prrs)
    return Report(
        title=f"Uncertainty on {run.header.dataset}",
        command=command,
        facts=_facts(run, num_resamples),
        tasks=_tasks(run, rankings),
        costs=_costs(run),
        methods=_methods(scores),
        grids=_grids(rankings),
        claims=all_claims,
        similarity_grids=_similarity_grids(rankings),
        similarity_claims=_similarity_claims(rankings, run.variants[0].similarity),
        sample_grids=_sample_grids(rankings),
        sample_claims=_sample_claims(rankings, run.variants[0].draw),
        rao_blackwell_claims=_rao_blackwell_claims(rankings, run.variants[0]),
        alternative_claims=alternatives,
        galleries=_galleries(run, estimator),
        estimator=estimator,
        notes=notes(run, rankings, num_resamples),
        recommendation=sentence(recommend(rankings), why_none(rankings)),
        plots=plots,
    )


def only_compared(table: Table) -> Table:
    """CoCoA and inconsistency, as such and Rao-Blackwellised: what similarity functions change."""
    compared = {}
    for column, values in table.items():
        compared[column] = {name: values[name] for name in filter(is_compared, values)}
    return compared


def _facts(run: Run, num_resamples: int) -> dict[str, str]:
    header = run.header
    sampling = ", ".join(f"{name} {value}" for name, value in header.sampling.items())
    facts = {
        "model": with_revision(header.model, header.revision),
        "sampling": f"{sampling}, seed {header.seed}",
        **run.models,
        "intervals": f"95 %, percentile bootstrap over prompts, {num_resamples} resamples",
    }
    if run.speed:
        prompts_per_s, cores = run.speed["prompts_per_s"], run.speed["cores"]
        facts["speed"] = f"{prompts_per_s:.1f} prompts a second on {cores:.0f} cores"
    return facts


def _tasks(run: Run, rankings: Rankings) -> list[dict[str, str]]:
    tasks = []
    for i, (task, measure) in enumerate(run.measure_names.items()):
        facts = {"task": task, "prompts": str(len(run.rows_of(task))), "quality": measure}
        for strategy, columns in rankings.columns.items():
            facts[f"mean, {strategy}"] = report.number(columns[i].mean_quality)
        for strategy, undefined in rankings.undefined_resamples.items():
            facts[f"undefined resamples, {strategy}"] = str(undefined[task])
        tasks.append(facts)
    return tasks


def _costs(run: Run) -> list[dict[str, str]]:
    rows = []
    for cost in run.costs:
        row = {"estimators": ", ".join(cost.estimators)}
        row["models are asked for"] = ", ".join(cost.reads) or "nothing more"
        rows.append(row | {"ms a prompt": f"{cost.ms:.1f}"})
    return rows


def _methods(names: Iterable[str]) -> list[dict[str, str]]:
    """What each is, in the words of docs/reference/estimators.md."""
    rows = []
    for name in names:
        known = known_estimators()[name]
        row = {"method": f"`{name}`", "what it is": known.title, "formula": known.formula}
        rows.append(row | {"source": known.source})
    return rows


def _grids(rankings: Rankings) -> list[Grid]:
    grids = []
    for metric, by_strategy in rankings.tables.items():
        for strategy, table in by_strategy.items():
            title = f"{_TITLES[metric]}, {strategy} answers"
            controls = rankings.controls[metric][strategy]
            grids.append(report.grid(title, table, rankings.left_out, controls))
    return grids


def _similarity_grids(rankings: Rankings) -> list[Grid]:
    if len(rankings.by_similarity) < 2:
        return []
    grids = []
    for name, table in rankings.by_similarity.items():
        title = f"PRR, {rankings.strategies[0]} answers, {name}"
        grids.append(report.grid(title, only_compared(table), rankings.left_out))
    return grids


def _similarity_claims(rankings: Rankings, default: str) -> list[Claim]:
    found: list[Claim] = []
    strategy = rankings.strategies[0]
    ours = without(rankings.by_similarity[default], rankings.left_out)
    for name, theirs in rankings.by_similarity.items():
        if name != default:
            found += claims.above_other(f"{default} above {name}", strategy, ours, theirs)
    return found


def _sample_grids(rankings: Rankings) -> list[Grid]:
    """For each strategy the methods by draw, on the mean over tasks or the only task."""
    grids = []
    for strategy, by_draw in rankings.by_draw.items():
        if len(by_draw) < 2:
            continue
        column = overall(without(next(iter(by_draw.values())), rankings.left_out))
        table: dict[str, ByEstimator] = {}
        for draw, one in by_draw.items():
            table[f"M = {draw}"] = one.get(column or "", {})
        grids.append(report.grid(f"PRR by samples, {strategy} answers", table))
    return grids


def _sample_claims(rankings: Rankings, default: str) -> list[Claim]:
    found: list[Claim] = []
    for strategy, by_draw in rankings.by_draw.items():
        ours = without(by_draw[default], rankings.left_out)
        for draw, theirs in by_draw.items():
            if draw != default:
                claim = f"samples: {default} above {draw}"
                found += claims.above_other(claim, strategy, ours, theirs)
    return found


def _rao_blackwell_claims(rankings: Rankings, first: Variant) -> list[Claim]:
    """Against what they are made of, under every strategy, similarity function and draw."""
    tables: dict[str, Table] = {}
    for strategy, by_draw in rankings.by_draw.items():
        for draw, table in by_draw.items():
            answers = strategy
            if draw != first.draw:
                answers = f"{strategy}, samples {draw}"
            tables[answers] = table
    for similarity, table in rankings.by_similarity.items():
        if similarity != first.similarity:
            tables[f"{first.strategy}, {similarity}"] = table
    found: list[Claim] = []
    for answers, table in tables.items():
        found += claims.rao_blackwell(answers, without(table, rankings.left_out))
    return found


def _galleries(run: Run, estimator: str) -> list[Gallery]:
    """The ends of each task's order by uncertainty, under the first variant."""
    quality = run.qualities[run.variants[0]]
    uncertainty: dict[int, float] = {}
    for i, prompt in enumerate(run.prompts):
        score = prompt.answers[0].scores[estimator]
        if score is not None and not np.isnan(quality[i]):
            uncertainty[i] = score
    galleries = []
    for task in run.measure_names:
        rows = filter(uncertainty.__contains__, run.rows_of(task))
        ordered = sorted(rows, key=uncertainty.__getitem__)
        mistakes = [i for i in ordered if quality[i] < 0.5]
        gallery = Gallery(
            task=task,
            surest=_answers(run, ordered[:_NUM_SHOWN], uncertainty, quality),
            least_sure=_answers(run, ordered[: -_NUM_SHOWN - 1 : -1], uncertainty, quality),
            surest_mistakes=_answers(run, mistakes[:_NUM_SHOWN], uncertainty, quality),
        )
        galleries.append(gallery)
    return galleries


def _answers(
    run: Run, rows: Sequence[int], uncertainty: Mapping[int, float], quality: Array
) -> tuple[Shown, ...]:
    return tuple(_shown(run, i, uncertainty[i], float(quality[i])) for i in rows)


def _shown(run: Run, row: int, uncertainty: float, quality: float) -> Shown:
    prompt = run.prompts[row]
    samples: list[str] = []
    if (generation := prompt.recording.generation) is not None:
        samples = [sample.compared_text for sample in generation.samples]
    return Shown(
        prompt=prompt.example.prompt,
        answer=prompt.answers[0].text,
        uncertainty=uncertainty,
        quality=quality,
        references=tuple(prompt.example.references),
        samples=tuple(Counter(samples).most_common()),
    )

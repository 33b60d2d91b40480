"""What a reader has to know before trusting the numbers of a run. Pure."""

from collections import Counter
from collections.abc import Mapping

from cocoa_lab import quality
from cocoa_lab.comparison import MEAN, MIN_RIGHT_AND_WRONG, difference, overall, without
from cocoa_lab.rankings import Rankings
from cocoa_lab.run import Run

_FEW_PROMPTS = 50


def notes(run: Run, rankings: Rankings, num_resamples: int) -> list[str]:
    """One sentence or two for each thing, the gravest first."""
    return [
        *_foreign(run),
        *_as_good_as(rankings),
        *_left_out(rankings),
        *_undefined(rankings, num_resamples),
        *few_prompts(_num_prompts(rankings)),
        *_contained(run),
        *_failed(run),
        *_without_value(run),
    ]


def ranks_nothing(task: str, why: str) -> str:
    """That a task is left out, and why."""
    return (
        f"{task} ranks nothing and is left out of means and claims, as there are fewer than "
        f"{MIN_RIGHT_AND_WRONG} right or {MIN_RIGHT_AND_WRONG} wrong answers, or one quality "
        f"throughout: {why}."
    )


def few_prompts(num_prompts: Mapping[str, int]) -> list[str]:
    """The tasks that are too small, if there are any."""
    few = [f"{task} {count}" for task, count in num_prompts.items() if count < _FEW_PROMPTS]
    if not few:
        return []
    return [
        f"Fewer than {_FEW_PROMPTS} prompts with a quality say little about which estimator is "
        f"better: {', '.join(few)}."
    ]


def _foreign(run: Run) -> list[str]:
    """Pair models whose scores say little here, so that nothing that reads them does."""
    if not run.foreign:
        return []
    return [
        f"{' and '.join(run.foreign)}: the embedded pair model does not know the answers of "
        f"{run.header.model}, and what reads its scores says little. Set COCOA_SIMILARITY__MODEL "
        "(or COCOA_NLI__MODEL) to a model that does, or compare by --similarity added."
    ]


def _as_good_as(rankings: Rankings) -> list[str]:
    """Controls that no estimator beats, so that the tables say little of uncertainty."""
    strategy = rankings.strategies[0]
    table = without(rankings.tables["prr"][strategy], rankings.left_out)
    column = overall(table)
    if column is None:
        return []
    found = []
    for control, measured in rankings.controls["prr"][strategy].get(column, {}).items():
        gains = [difference(values, measured) for values in table[column].values()]
        if not any(gain is not None and gain.low > 0 for gain in gains):
            found.append(
                f"{control}, which is no estimator, ranks as well as any by the column {column}: "
                "these prompts do not show which estimator is better."
            )
    return found


def _left_out(rankings: Rankings) -> list[str]:
    found = []
    for task, reasons in rankings.left_out.items():
        found.append(ranks_nothing(task, _by_reason(reasons)))
    columns = rankings.columns[rankings.strategies[0]]
    averaged = [column.task for column in columns if column.task not in rankings.left_out]
    if found and MEAN in rankings.tables["prr"][rankings.strategies[0]]:
        found.append(f"Means are over {', '.join(averaged)} alone.")
    return found


def _by_reason(reasons: Mapping[str, str]) -> str:
    """Reasons, each with the strategies that it is true of."""
    strategies: dict[str, list[str]] = {}
    for strategy, why in reasons.items():
        strategies.setdefault(why, []).append(strategy)
    told = [f"{why} ({', '.join(names)})" for why, names in strategies.items()]
    return "; ".join(told)


def _undefined(rankings: Rankings, num_resamples: int) -> list[str]:
    by_task: dict[str, list[str]] = {}
    for strategy, counts in rankings.undefined_resamples.items():
        for task, count in counts.items():
            if count:
                by_task.setdefault(task, []).append(f"{count} ({strategy})")
    found = []
    for task, counted in by_task.items():
        found.append(
            f"{task}: PRR is undefined on resamples of equal quality, which are left out of its "
            f"intervals: {', '.join(counted)} of {num_resamples}."
        )
    return found


def _num_prompts(rankings: Rankings) -> dict[str, int]:
    """Prompts with a quality, by task."""
    columns = rankings.columns[rankings.strategies[0]]
    return {column.task: len(column.known_quality) for column in columns}


def _contained(run: Run) -> list[str]:
    """Answers that exact match calls wrong although they hold a reference."""
    exact = [task for task, name in run.measure_names.items() if name == "exact_match"]
    num_answers = num_contained = 0
    for prompt in run.prompts:
        if prompt.example.task in exact:
            text = prompt.answers[0].text
            num_answers += 1
            is_equal = quality.exact_match(text, prompt.example)
            num_contained += not is_equal and bool(quality.contains(text, prompt.example))
    if not num_contained:
        return []
    return [
        f"{num_contained} of {num_answers} answers contain a reference without being equal to it, "
        "and count as wrong: consider --quality contains."
    ]


def _failed(run: Run) -> list[str]:
    if not run.num_failed:
        return []
    errors = ", ".join(run.errors)
    return [f"{run.num_failed} prompts have no generation and are left out: {errors}."]


def _without_value(run: Run) -> list[str]:
    missing: Counter[str] = Counter()
    for prompt in run.prompts:
        missing.update(list(prompt.answers[0].reasons))
    found = []
    for name, count in missing.items():
        found.append(f"{name} has no value for {count} prompts, which count as least certain.")
    return found

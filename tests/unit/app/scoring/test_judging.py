"""Which asks a calibrator speaks of, what it says, and what it refuses."""

import re
from dataclasses import replace

import pytest

from app.scoring import judging
from app.scoring.ask import Ask, GivenSample
from app.scoring.check import check
from app.scoring.units import Scored
from models.calibration import ALL
from models.errors import NotCalibrated
from models.records import GivenAnswer, Grammar, ProbeReading, Reasoning, SamplingParams
from models.statistics import STATISTICS
from tests.made_calibrators import calibration, calibrator
from tests.results import ABLE, a_deployment, a_plan, sequence, similarity_info

ASK = Ask(prompt="Hi", sampling=SamplingParams(max_new_tokens=64))
PLAN = a_plan(estimators=("rb_cocoa_root_sp",), primary="rb_cocoa_root_sp")
TARGET = replace(ASK, target_error=0.05)
ANSWER = sequence("Paris")


def judge(ask, plan, calibrator, uncertainty, answer=ANSWER, **told):
    """The judgement of an answer with this uncertainty."""
    plan = replace(plan, ask=ask, calibrator=calibrator)
    scored = Scored({plan.primary: uncertainty}, {})
    return judging.judge(plan, scored, answer, **told)


def check_asked(ask, plan, calibrator):
    known = frozenset(STATISTICS)
    plan = replace(plan, ask=ask, available=known, calibrator=calibrator)
    check(
        plan,
        a_deployment(
            calibrator=calibrator, similarity_scorers={"added": similarity_info()}, **ABLE
        ),
    )


def sampled(**changes):
    return replace(ASK, sampling=replace(ASK.sampling, **changes))


OTHER = {
    "given samples": (replace(ASK, samples=(GivenSample("Rome"),)), PLAN, "given samples"),
    "a chat": (
        replace(ASK, prompt=None, messages=({},)),
        PLAN,
        "for messages: ask with prompt, or calibrate",
    ),
    "another strategy": (
        ASK,
        replace(PLAN, strategy="mbr"),
        "strategy mbr: ask with strategy greedy",
    ),
    "log-probs from elsewhere": (
        replace(ASK, answer_token_logprobs=(-0.5,)),
        PLAN,
        "given log-probs",
    ),
    "fewer samples": (sampled(num_samples=5), PLAN, "for num_samples 5: ask with num_samples 10,"),
    "temperature": (sampled(temperature=0.5), PLAN, "temperature 0.5: ask with temperature 1"),
    "top_k": (sampled(top_k=0), PLAN, "for top_k 0: ask with top_k 50,"),
    "top_p": (sampled(top_p=0.5), PLAN, "for top_p 0.5: ask with top_p 1,"),
    "a stop string": (sampled(stop=(".",)), PLAN, "for stop ['.']: ask with stop [],"),
    "a smaller limit": (
        sampled(max_new_tokens=8),
        PLAN,
        "max_new_tokens 8: ask with max_new_tokens 64",
    ),
    "a bound of reasonings": (
        sampled(max_reasoning_tokens=8),
        PLAN,
        "for max_reasoning_tokens 8: ask with max_reasoning_tokens not set,",
    ),
    "answers that are held to a grammar": (
        replace(ASK, grammar=Grammar("json_schema", "{}")),
        PLAN,
        "for json_schema followed: ask with json_schema none,",
    ),
    "calls of tools": (
        replace(ASK, tools=({"type": "function"},)),
        PLAN,
        "not calibrated for tools called: ask with tools none, or calibrate for it",
    ),
    "a call that is required": (
        replace(ASK, tools=({"type": "function"},), grammar=Grammar("json_schema", "{}")),
        PLAN,
        "for tools called and followed: ask with tools none,",
    ),
    "a temperature that draws the answer": (
        replace(sampled(answer_temperature=0.2), names={"answer_temperature": "temperature"}),
        replace(PLAN, strategy="sample"),
        "not calibrated for temperature 0.2: ask with temperature 0, or calibrate for it",
    ),
    "one of the samples": (
        replace(ASK, strategy="mbr"),
        replace(PLAN, strategy="mbr", calibrator=None),
        "not calibrated for strategy mbr: ask with strategy greedy, or calibrate for it",
    ),
    "an effort": (
        replace(ASK, chat_template_kwargs={"reasoning_effort": "low"}),
        PLAN,
        "for reasoning_effort low: ask with reasoning_effort not set,",
    ),
    "another similarity": (ASK, replace(PLAN, similarity="added"), "ask with similarity fake,"),
    "another estimator": (
        ASK,
        replace(PLAN, estimators=("cocoa_ppl",), primary="cocoa_ppl"),
        "cocoa_ppl is not calibrated: see GET /version",
    ),
}


@pytest.mark.parametrize(("ask", "plan", "why"), OTHER.values(), ids=list(OTHER))
def test_a_score_of_something_else_has_no_confidence_and_no_decision(ask, plan, why):
    said = judge(ask, plan, calibrator(), 0.5)
    assert (said.confidence, said.percentile, said.decision, said.calibrator) == (None,) * 4
    assert why in said.reason
    with pytest.raises(NotCalibrated, match=re.escape(why)) as refused:
        check_asked(replace(ask, target_error=0.05), plan, calibrator())
    assert refused.value.field == "target_error"


def test_a_drawn_answer_is_bound_to_its_temperature_whatever_its_score_reads():
    plan = replace(PLAN, strategy="sample", estimators=("sp",), primary="sp")
    known = calibrator({ALL: {"sp": calibration()}}, strategy="sample", answer_temperature=0.2)
    drawn = sampled(answer_temperature=0.2)
    assert judge(drawn, plan, known, 0.5).confidence is not None
    for other in ({"answer_temperature": 0.7}, {"top_k": 5}, {"top_p": 0.5}):
        changed = replace(drawn, sampling=replace(drawn.sampling, **other))
        assert judge(changed, plan, known, 0.5).confidence is None
    unread = replace(drawn, sampling=replace(drawn.sampling, num_samples=1, temperature=0.5))
    assert judge(unread, plan, known, 0.5).confidence is not None


UNNAMED = {
    ("sample", "mbr"): "for answer_temperature 0, strategy mbr: ask with answer_temperature 0.2, "
    "strategy not set,",
    ("mbr", "sample"): "for answer_temperature 0.25, strategy not set: ask with "
    "answer_temperature 0, strategy mbr,",
}


@pytest.mark.parametrize(("strategies", "why"), UNNAMED.items())
def test_no_advice_names_a_strategy_that_nobody_can_ask_for(strategies, why):
    (bound, strategy), drawn_at = strategies, {"sample": 0.2}
    known = calibrator(strategy=bound, answer_temperature=drawn_at.get(bound, 0.0))
    asked = sampled(answer_temperature=0.25) if strategy == "sample" else ASK
    assert why in judge(asked, replace(PLAN, strategy=strategy), known, 0.5).reason


def test_a_calibrator_of_chats_speaks_of_chats_and_not_of_prompts():
    chat = replace(ASK, prompt=None, messages=({},))
    assert judge(chat, PLAN, calibrator(input="messages"), 0.5).confidence is not None
    assert judge(ASK, PLAN, calibrator(input="messages"), 0.5).confidence is None


def several(*parts):
    """A calibrator of parts with these groups and changes of the binding."""
    made = [calibrator(groups, **changes).parts[0] for groups, changes in parts]
    return replace(calibrator(), parts=tuple(made))


STRICT, LOOSE = ({ALL: {"rb_cocoa_root_sp": calibration(threshold=u)}} for u in (0.1, 3.0))


def test_a_part_without_the_estimator_or_of_parts_of_answers_does_not_speak():
    known = several(({ALL: {"sp": calibration()}}, {}), (STRICT, {"unit": "field"}), (LOOSE, {}))
    assert judge(TARGET, PLAN, known, 0.5).decision.threshold == 3.0
    known = replace(known, parts=known.parts[:2])
    assert judge(ASK, PLAN, known, 0.5).reason.startswith("rb_cocoa_root_sp is not calibrated")


def test_a_given_answer_that_does_not_end_is_another_thing_than_one_that_does():
    known, plan = calibrator(strategy="given"), replace(PLAN, strategy="given")
    ended, begun = (GivenAnswer("Rome", append_eos=ends) for ends in (True, False))
    assert judge(replace(ASK, answer=ended), plan, known, 0.5).confidence is not None
    said = judge(replace(ASK, answer=begun), plan, known, 0.5)
    assert "for append_eos False: ask with append_eos True" in said.reason


def test_the_reason_names_what_the_nearest_part_would_have_to_be_asked():
    known = several((STRICT, {"input": "messages", "temperature": 0.5}), (LOOSE, {"top_k": 7}))
    said = judge(ASK, PLAN, known, 0.5)
    assert said.reason == "not calibrated for top_k 50: ask with top_k 7, or calibrate for it"
    far = judge(sampled(temperature=0.2), PLAN, known, 0.5)
    assert far.reason == (
        "not calibrated for prompt, temperature 0.2: "
        "ask with messages, temperature 0.5, or calibrate for it"
    )


@pytest.mark.parametrize(
    ("name", "nli", "fits"),
    [("cocoa_sp", "the-nli", False), ("cocoa_sp", None, True), ("sp", "the-nli", True)],
)
def test_sentences_compared_by_words_are_not_those_that_an_nli_model_compared(name, nli, fits):
    known = several(({ALL: {name: calibration()}}, {"unit": "sentence", "nli": nli}))
    ask = replace(ASK, units="sentences")
    plan = replace(PLAN, ask=ask, unit_primary=name, parts_compared_by="words", calibrator=known)
    said = "not calibrated for compared by words: ask with compared by nli, or calibrate for it"
    found = plan.unit_calibrated
    if fits:
        assert found.binding == known.parts[0].binding
    else:
        assert found == said


def test_what_no_sample_is_read_for_heeds_no_sampling():
    plan = replace(PLAN, estimators=("sp",), primary="sp")
    known = calibrator({ALL: {"sp": calibration()}})
    other = sampled(num_samples=3, temperature=0.5, top_k=0)
    assert judge(other, replace(plan, similarity="added"), known, 0.5).confidence is not None


@pytest.mark.parametrize("limit", [64, 65, 8192, None])
def test_a_larger_limit_is_the_same_where_hardly_a_text_was_cut(limit):
    assert judge(sampled(max_new_tokens=limit), PLAN, calibrator(), 0.5).confidence is not None
    often_cut = judge(sampled(max_new_tokens=limit), PLAN, calibrator(share_cut=0.2), 0.5)
    assert (often_cut.confidence is not None) == (limit == 64)


@pytest.mark.parametrize(("uncertainty", "accept"), [(0.5, True), (1.0, True), (1.01, False)])
def test_an_answer_passes_up_to_the_threshold(uncertainty, accept):
    said = judge(TARGET, PLAN, calibrator(), uncertainty)
    assert (said.decision.accept, said.decision.threshold) == (accept, 1.0)
    assert said.decision.target_error == 0.05
    assert "at most 5 % of the accepted answers are wrong, with probability 0.9" in (
        said.decision.guarantee
    )
    assert "made, 500 labels" in said.decision.guarantee
    assert said.confidence == pytest.approx(1 - uncertainty / 8)


def test_a_promise_of_a_group_names_it_and_its_labels():
    of_group = {"rb_cocoa_root_sp": calibration(num_labels=120)}
    made = calibrator({ALL: {"rb_cocoa_root_sp": calibration()}, "facts": of_group})
    said = judge(replace(TARGET, calibration="facts"), PLAN, made, 0.5)
    assert said.decision.guarantee.endswith("those of 'facts', 120 of made, 500 labels")
    said = judge(replace(TARGET, calibration=ALL), PLAN, made, 0.5)
    assert said.decision.guarantee.endswith("those of made, 500 labels")


UNLIKE = {
    "nothing": (sequence(""), "empty_answer"),
    "blanks": (sequence(" \n"), "empty_answer"),
    "an opened tag": (sequence("<think>"), "reasoning_unfinished"),
    "a reasoning without an answer": (
        sequence("", reasoning=Reasoning("hm", 3, is_finished=False)),
        "reasoning_unfinished",
    ),
    "a cut answer": (sequence("Par", finish_reason="length"), "answer_truncated"),
}


@pytest.mark.parametrize(("answer", "code"), UNLIKE.values(), ids=list(UNLIKE))
def test_an_answer_unlike_those_that_were_calibrated_never_passes(answer, code):
    said = judge(TARGET, PLAN, calibrator(), 0.0, answer)

    assert said.reason.startswith(f"{code}: ")
    assert (said.confidence, said.percentile, said.decision.accept) == (None, None, False)
    assert said.decision.guarantee == f"{said.reason}: not accepted"
    assert judge(TARGET, PLAN, calibrator(), 0.0).decision.accept


def test_a_cut_answer_may_pass_where_cut_ones_were_calibrated():
    cut = sequence("Par", finish_reason="length")

    assert judge(TARGET, PLAN, calibrator(share_cut=0.2), 0.0, cut).decision.accept


@pytest.mark.parametrize(
    ("primary", "code"), [("inconsistency_light", "out_of_domain"), ("sp", None)]
)
def test_an_answer_that_a_probe_cannot_read_does_not_pass_by_that_probe(primary, code):
    readings = {"predicted_dissimilarity": ProbeReading(0.1, 99.9, out_of_domain=True)}
    plan = replace(PLAN, estimators=(primary,), primary=primary)
    known = calibrator({ALL: {primary: calibration()}})

    said = judge(TARGET, plan, known, 0.0, readings=readings)

    assert (said.reason and said.reason.partition(":")[0]) == code
    assert said.decision.accept == (code is None)


@pytest.mark.parametrize(
    ("uncertainty", "floor", "action", "reason"),
    [
        (0.8, None, "accept", "it passes at a target error of 5 %"),
        (1.6, None, "verify", "it does not pass, but its confidence is 80 %"),
        (2.0, 0.75, "verify", "it does not pass, but its confidence is 75 %"),
        (2.0, 0.7501, "hand_over", "its confidence of 75 % is below 75.01 %"),
        (4.0, None, "hand_over", "its confidence of 0 % is below 50 %"),
        (4.0, 0.0, "verify", "it does not pass, but its confidence is 0 %"),
        (None, 0.0, "hand_over", "it does not pass, and nothing is known of its confidence"),
    ],
)
def test_an_answer_passes_or_is_verified_from_a_confidence_on_or_handed_over(
    uncertainty, floor, action, reason
):
    decision = judge(
        replace(TARGET, hand_over_below=floor), PLAN, calibrator(), uncertainty
    ).decision
    assert (decision.action, decision.reason) == (action, reason)
    assert (decision.accept, decision.threshold) == (action == "accept", 1.0)


def test_what_nothing_is_calibrated_for_is_handed_over():
    decision = judge(TARGET, PLAN, None, 0.0).decision
    assert (decision.accept, decision.action) == (False, "hand_over")
    assert decision.guarantee.endswith("one of labelled answers; nothing is accepted")

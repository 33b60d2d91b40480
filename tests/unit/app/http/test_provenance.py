"""Where the scores of a result come from: what is known, and nothing that is not."""

from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.scoring.ask import Ask, GivenSample
from app.scoring.derive import Evidence
from app.scoring.questions import subject_of
from models.records import GivenAnswer
from tests.results import a_plan, a_result


def test_texts_alone_name_no_model_and_cost_no_tokens():
    ask = Ask(answer=GivenAnswer("Paris"), samples=(GivenSample("Rome", (-1.0,)),))
    evidence = Evidence(subject_of(ask, None), {}, {}, False)
    plan = a_plan(strategy="given")
    told = to_response(a_result(ask=ask, evidence=evidence, plan=plan), "id")
    body = GenerateResponse.model_validate(told, extra="forbid")

    about = body.provenance
    assert (body.finish_reason, about.samples_source) == ("given", "client")
    assert (about.strategy, about.retokenized) == ("given", False)
    assert not about.model_fields_set & {"model", "seed", "answer_form"}
    assert body.usage.model_dump() == dict.fromkeys(body.usage.model_dump(), 0)

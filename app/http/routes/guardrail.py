"""`POST /beta/litellm_basic_guardrail_api`: whether LiteLLM may pass an answer on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.guardrail import AskedCalls
from app.http.json_calls import json_response, read_body, takes, unless_gone
from app.http.requests.bodies import ask_of
from app.http.requests.guardrail import Asked, GuardrailCall, GuardrailParams, score_request
from app.http.responses import to_response
from app.http.schemas import DecisionInfo, GuardrailVerdict
from app.http.service import Service
from app.scoring.ask import current_caller
from workers.calling import in_time

router = APIRouter(tags=["guardrail"])
_BODY = TypeAdapter(GuardrailCall)


@router.post(
    "/beta/litellm_basic_guardrail_api",
    response_model=GuardrailVerdict,
    openapi_extra=takes("GuardrailCall"),
)
async def litellm_guardrail(request: Request) -> Response:
    """Remember what a model is about to be asked, or say whether its answer may pass.

    This is LiteLLM's generic guardrail API.
    """
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    calls: AskedCalls = request.app.state.asked_calls
    asked = body.asked
    if body.input_type == "request" and asked is not None:
        calls.remember(body.litellm_call_id, asked)
        return json_response(GuardrailVerdict(action="NONE"))
    verdict = await unless_gone(request, _verdict(service, calls, body, request.state.request_id))
    return json_response(verdict)


async def _verdict(
    service: Service, calls: AskedCalls, body: GuardrailCall, request_id: str
) -> GuardrailVerdict:
    """The verdict of the first text that does not pass, or that all pass."""
    params, asked = body.additional_provider_specific_params, body.asked
    if asked is None:
        asked = await calls.recall(body.litellm_call_id)
    if service.access is not None:
        service.access.charge_requests(current_caller.get(), len(body.texts) - 1)
    async with in_time(params.timeout_s):
        for number, text in enumerate(body.texts):
            answer_id = request_id
            if number:
                answer_id += f"-{number}"
            response = await _score(service, asked, text, params, answer_id)
            if (reason := _why_not(response, params)) is not None:
                told = f"the answer is not sure enough: {reason}"
                return GuardrailVerdict(action="BLOCKED", blocked_reason=told)
    return GuardrailVerdict(action="NONE")


async def _score(
    service: Service, asked: Asked, text: str, params: GuardrailParams, answer_id: str
) -> dict[str, Any]:
    ask = replace(ask_of(score_request(asked, text, params)), tools=asked.tools_shown)
    return to_response(await service.run(ask, answer_id), answer_id)


def _why_not(response: Mapping[str, Any], params: GuardrailParams) -> str | None:
    """Why an answer does not pass; None where it does."""
    uncertainty, estimator = response["uncertainty"], response["estimator"]
    if params.threshold is None:
        decision: DecisionInfo = response["decision"]
        if decision.action == "accept":
            return None
        return decision.reason
    if uncertainty is None:
        reason = response["reasons"].get(estimator, "no reason is known")
        return f"it has no {estimator}: {reason}"
    if uncertainty <= params.threshold:
        return None
    return f"its {estimator} of {uncertainty:.4g} is above the threshold of {params.threshold:g}"

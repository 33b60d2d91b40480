"""`POST /feedback`, and what has served answers remembered for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import get_args

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import json_response, read_body, takes
from app.plugin import Gateway
from app.plugins.labels.answers import to_answer
from app.plugins.labels.bodies import FeedbackKept, FeedbackRequest
from app.plugins.labels.collecting import AnswerOutcome, Feedback, LabelOutcome, make_feedback
from app.scoring.ask import Ask, current_caller
from app.scoring.result import Result
from models.errors import FeedbackDisabled

_BODY = TypeAdapter(FeedbackRequest)


def install(gateway: Gateway) -> None:
    """Take labels, and remember answers where there is a place for them."""
    telemetry = gateway.app.state.service.telemetry
    feedback = make_feedback(gateway.settings.feedback, telemetry.observe_one)
    outcomes = get_args(AnswerOutcome)
    gateway.add_counter("feedback_answers", "Answers for labels to come.", "outcome", outcomes)
    gateway.add_counter("feedback_labels", "Labels.", "outcome", get_args(LabelOutcome))
    gateway.add_routes(_routes(feedback), [FeedbackRequest], costs_tokens=False)
    if feedback is not None:
        gateway.on_start(feedback.store.start)
        gateway.on_ask(partial(_remembered, feedback))
        gateway.run_beside(partial(_closed_at_the_end, feedback))


def _routes(feedback: Feedback | None) -> APIRouter:
    router = APIRouter(tags=["feedback"])

    @router.post(
        "/feedback",
        name="feedback",
        response_model=FeedbackKept,
        openapi_extra=takes("FeedbackRequest"),
    )
    async def label_answer(request: Request) -> Response:
        """Label an answer that was served, or parts of it; answered when the label is durable."""
        body = await read_body(request, _BODY)
        if feedback is None:
            settings = "COCOA_FEEDBACK__PATH or COCOA_FEEDBACK__URL"
            raise FeedbackDisabled(f"no labels are collected: set {settings}")
        namespace = current_caller.get().namespace
        parts = [(unit.named, unit.correct, unit.grounded) for unit in body.units or ()]
        await feedback.label(body.id, body.as_quality, body.task, namespace, parts)
        kept = FeedbackKept(id=body.id, quality=body.as_quality, task=body.task)
        if parts:
            kept.units = len(parts)
        return json_response(kept)

    return router


async def _remembered(
    feedback: Feedback, ask: Ask, model: str, answer_id: str, run: Callable[[], Awaitable[Result]]
) -> Result:
    """The result, whose answer can be labelled from then on."""
    result = await run()
    feedback.remember(lambda: to_answer(result, answer_id, keeps_text=feedback.config.keep_texts))
    return result


@asynccontextmanager
async def _closed_at_the_end(feedback: Feedback) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await feedback.store.close()

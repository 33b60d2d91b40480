"""What the OpenAPI document shows: one example of each response, and of each error.

The numbers are those of the embedded models.
"""

from collections.abc import Mapping
from typing import Any

from app.http.schemas import ErrorResponse

Responses = dict[int | str, dict[str, Any]]

REQUEST_ID = "024eca7a12c344209145fa5bdab19d41"
_LANGUAGE_MODEL = {"id": "embedded", "revision": "4bdbf27c164c"}
_PAIR_MODEL = {"id": "embedded", "revision": "22da45768f3c"}
_NLI_MODEL = {"id": "embedded", "revision": "2a44af8e98b5"}

GENERATED: dict[str, Any] = {
    "id": REQUEST_ID,
    "model": _LANGUAGE_MODEL,
    "mode": "full",
    "strategy": "greedy",
    "answer_sample": None,
    "text": " Paris",
    "finish_reason": "stop",
    "retokenized": False,
    "answer_form": None,
    "estimator": "cocoa_sp",
    "uncertainty": 0.000188,
    "degraded": False,
    "confidence": None,
    "percentile": None,
    "confidence_reason": "no calibrator is loaded",
    "calibrator": None,
    "decision": None,
    "escalation": None,
    "scores": {"cocoa_sp": 0.000188, "sp": 0.3163, "consistency": 0.000593},
    "reasons": {},
    "warnings": [],
    "samples_source": "model",
    "num_samples": 4,
    "num_distinct_samples": 2,
    "stopped_by": None,
    "consistency_std_error": 0.000342,
    "found_mass": None,
    "entropy_method": "exact",
    "mte_bounds": None,
    "similarity": "cross_encoder",
    "similarity_model": _PAIR_MODEL,
    "nli_model": None,
    "probe": None,
    "entropy_split": None,
    "seed": 1,
    "samples": [
        {"text": " Paris", "logprob": -0.3163, "similarity": 1.0, "finish_reason": "stop"},
        {
            "text": " The answer is Paris.",
            "logprob": -2.8694,
            "similarity": 0.9988,
            "finish_reason": "stop",
        },
    ],
    "tokens": [
        {"text": " Paris", "logprob": -0.3155, "entropy": 0.9072},
        {"text": "", "logprob": -0.0008, "entropy": 0.0095},
    ],
    "explanation": None,
    "groups": None,
    "usage": {"prompt_tokens": 8, "completion_tokens": 2, "sample_tokens": 16},
    "timing_ms": {
        "queue": 0.761,
        "generate": 48.439,
        "similarity": 8.648,
        "score": 0.193,
        "total": 58.864,
    },
    "cached": False,
}

_SCORED = GENERATED | {
    "model": None,
    "strategy": "given",
    "text": "Paris",
    "finish_reason": "given",
    "estimator": "consistency",
    "uncertainty": 0.5003,
    "degraded": False,
    "entropy_method": None,
    "scores": {"consistency": 0.5003},
    "samples_source": "client",
    "num_samples": 2,
    "consistency_std_error": 0.4988,
    "seed": None,
    "samples": None,
    "tokens": None,
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "sample_tokens": 0},
    "timing_ms": {
        "queue": 0.0,
        "generate": 0.0,
        "similarity": 10.432,
        "score": 0.079,
        "total": 11.231,
    },
}

_VERSION = {
    "version": "0.1.0",
    "model": _LANGUAGE_MODEL,
    "model_capabilities": {},
    "model_self_test_tokens": 35,
    "similarity_models": {
        "cross_encoder": _PAIR_MODEL,
        "nli": _NLI_MODEL,
        "rouge_l": {"id": "rouge_l", "revision": None},
    },
    "default_similarity": "cross_encoder",
    "nli_model": _NLI_MODEL,
    "probes": {
        "predicted_dissimilarity": {
            "id": "6d2df9a1114f",
            "training_set": "embedded_probe_prompts.jsonl",
            "layer": 4,
        }
    },
    "calibrator": None,
    "limits": {"max_body_bytes": 1_000_000, "max_body_s": 30.0, "max_context_tokens": 512},
}

_ESTIMATORS = {
    "default": ["cocoa_sp", "cocoa_ppl", "cocoa_mte", "sp", "ppl", "mte", "consistency"],
    "light": ["cocoa_sp_light", "cocoa_ppl_light", "cocoa_mte_light"],
    "estimators": [
        {
            "name": "ppl",
            "formula": "Mean negative log-likelihood: -(1/T) sum_t l_t, in nats.",
            "needs": ["answer_token_logprobs"],
            "available": True,
            "reason": None,
            "split": None,
        }
    ],
}

_METRICS = """# HELP cocoa_ready 1 while requests are accepted.
# TYPE cocoa_ready gauge
cocoa_ready 1.0
"""

# What is sent to /score: one answer after a prompt, one with samples of one's own, and several.
SCORE_REQUESTS: dict[str, dict[str, Any]] = {
    "an answer to a prompt": {
        "value": {"prompt": "What is the capital of France?", "answer": " Paris", "seed": 1}
    },
    "samples of one's own": {
        "value": {
            "answer": "Paris",
            "samples": [{"text": "It is Paris."}, {"text": "Lyon"}],
            "estimators": ["consistency"],
        }
    },
    "several answers": {
        "value": {
            "items": [
                {"prompt": "What is the capital of France?", "answer": " Paris"},
                {"answer": "Paris", "samples": [{"text": "Lyon"}], "estimators": ["consistency"]},
            ]
        }
    },
}

# code: message and field
_Errors = dict[str, tuple[str, str | None]]
ERRORS: dict[int, tuple[str, _Errors]] = {
    400: (
        "The body is not JSON or not UTF-8",
        {"invalid_json": ("the body is not valid JSON", None)},
    ),
    401: (
        "No key, or none that is good; where the deployment has keys",
        {"unauthorized": ("send a key, as in Authorization: Bearer KEY", None)},
    ),
    403: (
        "The key is not good for this",
        {"forbidden": ("this key may not ask for mode full", "mode")},
    ),
    404: (
        "No answer of this id can be labelled, or no labels are collected here",
        {
            "model_not_found": (
                "this model is not served here; GET /v1/models lists all",
                "model",
            ),
            "unknown_answer": ("no answer of this id can be labelled, or not any more", "id"),
            "feedback_disabled": (
                "no labels are collected here: set COCOA_FEEDBACK__PATH or COCOA_FEEDBACK__URL",
                None,
            ),
        },
    ),
    408: (
        "The body did not come in time",
        {"request_timeout": ("the body was not there in 30 s", None)},
    ),
    413: (
        "The body is too large",
        {"body_too_large": ("the body exceeds 1000000 bytes", None)},
    ),
    415: (
        "The body is neither JSON nor said to be",
        {
            "unsupported_media_type": (
                "send a JSON body, with Content-Type: application/json",
                None,
            )
        },
    ),
    422: (
        "A field is out of its bounds, or the request does not fit the model",
        {
            "invalid_request": ("Input should be greater than or equal to 1", "num_samples"),
            "prompt_too_long": (
                "the prompt has 8 tokens and max_new_tokens is 8192; the context holds 512: at "
                "most 504 new tokens fit",
                "max_new_tokens",
            ),
            "chat_template_error": ("the model has no chat template", "messages"),
            "statistic_unavailable": (
                "mte reads answer_token_entropies, which this deployment cannot supply",
                "estimators",
            ),
            "probe_missing": (
                "cocoa_sp_light needs a probe for this model, and none is loaded: train one with "
                "`cocoa probe collect` and `cocoa probe train`",
                "mode",
            ),
            "light_needs_hidden_states": (
                "cocoa_sp_light needs a probe: the server of the model shows no hidden states to "
                "probes: that needs the plugin cocoa-vllm",
                "mode",
            ),
            "not_calibrated": ("no calibrator is loaded", "target_error"),
        },
    ),
    429: (
        "The admission limit, or one of the key, is reached; Retry-After says when to come back",
        {
            "overloaded": ("64 requests are under way, the admission limit", None),
            "rate_limited": ("this key may send 60 requests a minute; the next in 3 s", None),
        },
    ),
    500: (
        "A defect of the service or invalid numbers from the model",
        {
            "internal_error": ("an internal error; the logs know it by its request_id", None),
            "invalid_logits": ("the language model returned NaN or infinity", None),
        },
    ),
    503: (
        "Not ready, or a model or what keeps labels failed; may be repeated",
        {
            "not_ready": ("the service is starting", None),
            "engine_error": ("a decoding step failed: RuntimeError", None),
            "generation_unavailable": (
                "no generation worker has answered: its model is not ready",
                None,
            ),
            "similarity_unavailable": ("the similarity model failed: RuntimeError", None),
            "feedback_unavailable": ("Redis: unreachable", None),
        },
    ),
    504: (
        "The deadline passed",
        {"deadline_exceeded": ("no result within timeout_s = 60 s", None)},
    ),
}


def _error(code: str, message: str, field: str | None) -> dict[str, Any]:
    details = [{"field": field, "message": message}] if code == "invalid_request" else []
    if code == "rate_limited":
        details = [{"field": "requests_per_minute", "message": message}]
    error = {"code": code, "message": message, "field": field, "details": details}
    return {"error": error | {"request_id": REQUEST_ID}}


def _documented(status: int, *codes: str) -> dict[str, Any]:
    """An error as the document tells it; with these codes, else with all of its status."""
    description, errors = ERRORS[status]
    examples = {}
    for code in codes or errors:
        examples[code] = {"value": _error(code, *errors[code])}
    return {
        "model": ErrorResponse,
        "description": description,
        "content": {"application/json": {"examples": examples}},
    }


def answered(**examples: Any) -> dict[str, Any]:
    shown = {name: {"value": value} for name, value in examples.items()}
    return {"content": {"application/json": {"examples": shown}}}


_BODY_ERRORS: Responses = {status: _documented(status) for status in (400, 408, 413, 415)}
_FAILED = _documented(
    503, "not_ready", "engine_error", "generation_unavailable", "similarity_unavailable"
)
_WORK_ERRORS: Responses = {
    **_BODY_ERRORS,
    **{status: _documented(status) for status in (401, 403, 422, 429, 500, 504)},
    503: _FAILED,
}
_NOT_READY: Responses = {503: _documented(503, "not_ready")}
_KEY_ERRORS: Responses = {401: _documented(401), 429: _documented(429, "rate_limited")}

_EVENTS = """event: token
data: {"text":" Paris","logprob":-0.3155,"entropy":0.9072}

event: token
data: {"text":"","logprob":-0.0008,"entropy":0.0095}

event: result
data: {"id":"024eca7a12c344209145fa5bdab19d41","text":" Paris","uncertainty":0.000188}

"""


def streamed(example: str, *events: str) -> dict[str, Any]:
    """The content of a stream, as the document tells it: what each of its events is."""
    schema = {
        "type": "object",
        "properties": {"event": {"enum": list(events)}, "data": {"type": "string"}},
        "required": ["data"],
    }
    return {"text/event-stream": {"schema": schema, "example": example}}


GENERATE: Responses = {
    200: {
        "description": "The answer, or with `stream` its tokens and then the answer",
        "content": answered(answer=GENERATED)["content"]
        | streamed(_EVENTS, "token", "result", "error"),
    },
    **_WORK_ERRORS,
}
SCORE: Responses = {
    200: answered(
        one=_SCORED,
        several={
            "results": [
                {"result": _SCORED, "error": None},
                {
                    "result": None,
                    "error": _error(
                        "invalid_request",
                        "exactly one of prompt and messages must be given",
                        "prompt",
                    )["error"],
                },
            ]
        },
    ),
    **_WORK_ERRORS,
}
FEEDBACK: Responses = {
    200: answered(kept={"id": REQUEST_ID, "quality": 1.0, "task": None}),
    **_BODY_ERRORS,
    **_KEY_ERRORS,
    404: _documented(404, "unknown_answer", "feedback_disabled"),
    422: _documented(422, "invalid_request"),
    500: _documented(500, "internal_error"),
    503: _documented(503, "not_ready", "feedback_unavailable"),
}
LIVEZ: Responses = {200: answered(alive={"status": "alive"}), **_NOT_READY}
READYZ: Responses = {200: answered(ready={"status": "ready"}), **_NOT_READY}
VERSION: Responses = {200: answered(embedded=_VERSION), **_KEY_ERRORS}
ESTIMATORS: Responses = {200: answered(embedded=_ESTIMATORS), **_NOT_READY, **_KEY_ERRORS}
METRICS: Responses = {200: {"content": {"text/plain": {"example": _METRICS}}}}

BY_PATH = {
    "/generate-with-uncertainty": GENERATE,
    "/score": SCORE,
    "/feedback": FEEDBACK,
    "/livez": LIVEZ,
    "/readyz": READYZ,
    "/estimators": ESTIMATORS,
    "/version": VERSION,
}


def with_nulls(document: dict[str, Any], by_path: Mapping[str, Responses]) -> dict[str, Any]:
    """The document with examples as they stand here: FastAPI drops what is null in them."""
    for path, responses in by_path.items():
        for operation in document["paths"][path].values():
            for status, response in responses.items():
                documented = operation["responses"][str(status)]["content"]
                for kind, content in response["content"].items():
                    documented[kind] |= content
    return document

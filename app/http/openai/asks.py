"""What the core is asked by OpenAI's bodies."""

from app.http.openai.requests import ChatRequest, CompletionRequest
from app.http.requests.fields import check_light, template_variables
from app.http.requests.messages import messages_asked
from app.http.requests.tools import tools_asked
from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import SamplingParams


def ask_of(body: ChatRequest | CompletionRequest, *, light: bool) -> Ask:
    """What the core is asked by a chat or a text.

    Raises:
        InvalidRequest: name, mode and temperature contradict each other, or a light request says
            something of samples.
    """
    wanted, temperature = body.uncertainty, body.uncertainty.temperature
    if light and wanted.mode == "full":
        raise InvalidRequest("is light by the model's name", field="mode")
    light = light or wanted.mode == "light"
    if light:
        check_light(wanted, "uncertainty.")
    strategy = wanted.strategy or "greedy"
    if body.drawn_at is not None:  # as samples are
        if light:
            message = "must be 0 or left out in light mode, whose probe reads the greedy answer"
            raise InvalidRequest(message, field="temperature")
        temperature, strategy = body.drawn_at, wanted.strategy or "sample"
    own = wanted.asked()
    if isinstance(body, ChatRequest):
        own |= messages_asked(body.messages)
        variables = template_variables(body.chat_template_kwargs, body.reasoning_effort)
        own["chat_template_kwargs"] = variables
        own |= tools_asked(body, wanted, strategy=strategy, light=light)
    else:
        own["prompt"] = "".join(body.prompt)  # a list holds one
    num_samples, stop_mass = wanted.sample_bounds
    num_samples = max(num_samples, body.n)
    if own.get("of_tokens"):
        num_samples = body.n
    return Ask(
        sampling=SamplingParams(
            num_samples=num_samples,
            max_new_tokens=body.max_tokens,
            temperature=temperature,
            top_k=wanted.top_k,
            top_p=body.top_p,
            stop=tuple(body.stop),
            seed=body.seed,
            stop_mass=stop_mass,
            max_reasoning_tokens=wanted.max_reasoning_tokens,
            max_sample_reasoning_tokens=wanted.max_sample_reasoning_tokens,
        ),
        strategy=strategy,
        light=light,
        return_tokens=body.wants_logprobs,
        num_tops=body.num_tops,
        num_shown=body.n,
        **own,
    )

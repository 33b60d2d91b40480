"""Pure: whether a generation that came from elsewhere answers what was asked."""

from models.records import DEFAULT_NEW_TOKENS, Generation, GenerationRequest
from models.statistics import (
    ANSWER_STATISTICS,
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    SENTENCES_READ,
    STATISTICS,
)
from models.waves import num_taken

_MAX_TOKEN_CHARACTERS = 1024


def check_answers(request: GenerationRequest, generation: Generation) -> None:
    """Refuse a generation that has less than was asked for, or more.

    Raises:
        ValueError: it has.
    """
    samples, wanted = generation.samples, request.statistics
    generated = samples
    if request.answer is None:
        generated = (generation.answer, *samples)
    most = most_tokens(request)
    for sequence in generated:
        num_tokens = sequence.num_tokens
        if sequence.reasoning is not None:
            num_tokens += sequence.reasoning.num_tokens
        _expect(num_tokens <= most)
        _expect(len(sequence.text) <= most * _MAX_TOKEN_CHARACTERS)
    _expect(num_taken(request, generation) == len(samples))
    for names, sequences in (
        (ANSWER_STATISTICS, (generation.answer,)),
        (SAMPLE_STATISTICS - {"sample_texts"}, samples),
    ):
        for name in names:
            field = STATISTICS[name].field or ""
            for sequence in sequences:
                _expect((getattr(sequence, field) is not None) == (name in wanted))
    for index, sequence in enumerate((generation.answer, *samples)):
        num_tops = request.num_tops_of(index)
        _expect((sequence.token_tops is not None) == (num_tops > 0))
        for tops in sequence.token_tops or ():
            _expect(len(tops) <= num_tops)
    _expect(generation.probe_readings.keys() <= wanted & PROBE_STATISTICS)
    _expect(not generation.sentence_readings or SENTENCES_READ in wanted)
    hidden = () if generation.answer_hidden_mean is None else generation.answer_hidden_mean
    _expect(len(request.hidden_layers) == len(hidden))
    _expect(request.by_sentence or not generation.sentence_hidden_means)
    _expect((request.prompt_layer > 0) == (generation.prompt_state is not None))


def most_tokens(request: GenerationRequest) -> int:
    """The most tokens of each generated sequence, the one that ends it included."""
    return (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1


def _expect(is_so: bool) -> None:
    if not is_so:
        raise ValueError("other than what was asked for")

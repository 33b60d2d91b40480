"""The variables that a chat template reads, and those of them that a client may set."""

import functools
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace

from jinja2 import Environment, TemplateError
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.nodes import Assign, Macro, Name, Node
from jinja2.parser import Parser

from models.errors import InvalidRequest
from models.pretrained import PreTrainedTokenizerBase
from models.records import EFFORT, NO_EFFORT, GenerationRequest

# Functions that templates find; a variable of that name would take their place.
_FUNCTIONS = {"raise_exception", "strftime_now", *DEFAULT_NAMESPACE}


class _Generation(Extension):
    """`{% generation %}` marks what a model wrote; transformers knows it, and jinja does not."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own declaration

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def check_variables(tokenizer: PreTrainedTokenizerBase, names: Iterable[str]) -> None:
    """Refuse variables that a client must not set, and those that would change nothing.

    Raises:
        InvalidRequest: one would replace the rendering or its tokens, or the template reads none
            of that name.
    """
    # They would replace the rendering, its tokens or the template's own functions.
    rendering = inspect.signature(tokenizer.apply_chat_template).parameters.keys()
    reserved = {"messages", *rendering, *tokenizer.SPECIAL_TOKENS_ATTRIBUTES, *_FUNCTIONS}
    given = set(names)
    if clash := sorted(reserved & given):
        raise InvalidRequest(f"reserved names: {', '.join(clash)}", field="chat_template_kwargs")
    known = variables_of(str(tokenizer.get_chat_template()))
    if known is None or given <= known:
        return
    unread = "the chat template of this model does not read"
    if EFFORT in given - known:
        raise InvalidRequest(f"{unread} {EFFORT}", field=EFFORT)
    # The client's name of it may be any text, and is not quoted.
    read = ", ".join(sorted(known - reserved)) or "none"
    message = f"{unread} one of these variables; those that it reads: {read}"
    raise InvalidRequest(message, field="chat_template_kwargs")


def without_no_effort(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest
) -> GenerationRequest:
    """The request to a model that does not reason, without the wish of none that nobody reads."""
    variables = dict(request.chat_template_kwargs)
    if variables.get(EFFORT) != NO_EFFORT or not tokenizer.chat_template:
        return request
    if EFFORT not in (variables_of(str(tokenizer.get_chat_template())) or ()):
        del variables[EFFORT]
    return replace(request, chat_template_kwargs=variables)


@functools.lru_cache(maxsize=16)
def variables_of(chat_template: str) -> frozenset[str] | None:
    """Names that a template reads before it sets them itself; None for one that is no template.

    >>> sorted(variables_of("{{ messages[0].content }}{% if thinking %}{{ mark }}{% endif %}"))
    ['mark', 'messages', 'thinking']
    """
    environment = Environment(extensions=[_Generation, loopcontrols])  # noqa: S701, only parses
    try:
        tree = environment.parse(chat_template)
        unset = find_undeclared_variables(tree)
    except TemplateError:  # rendering it will say why
        return None
    first = dict(reversed([*_mentions(tree)]))
    first["tools"] = "load"  # which are the client's, though some templates begin by setting them
    return frozenset(name for name in unset if first.get(name) == "load")


def _mentions(node: Node, arguments: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Names in a node with what is done to them, in order, without `arguments` of macros around."""
    if isinstance(node, Name) and node.name not in arguments:
        yield node.name, node.ctx
    if isinstance(node, Macro):
        arguments |= {argument.name for argument in node.args}
    children = list(node.iter_child_nodes())
    if isinstance(node, Assign):  # its value is read before its target is set
        children.reverse()
    for child in children:
        yield from _mentions(child, arguments)

"""Documents beside a chat: as its template shows them, or before what the user said last."""

import pytest

from models.engines.chats import encode_chat, left_out, rendered_chat
from models.errors import ChatTemplateError
from models.images import PARTS
from models.records import GenerationRequest
from models.warnings import Warned
from tests.tiny_models import byte_tokenizer

TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
DOCUMENTS = (
    {"doc_id": "7", "title": "Terms", "text": "A <b>."},
    {"doc_id": "1", "title": "", "text": ""},
)
CHAT = (
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "So."},
    {"role": "user", "content": "How?"},
    {"role": "assistant", "content": "Thus."},
)
# As Granite's and Command R7B's templates show them; the latter fails without a list of tools.
GRANITE = "{% for d in documents %}<{{ d.doc_id }}>{{ d.text }}{% endfor %}" + TURNS
COMMAND = "{{ tools | length }}{% for d in documents %}{{ d | tojson }}{% endfor %}" + TURNS
SOME = "{% if documents %}{{ documents | length }} documents{% endif %}" + TURNS
REFUSES = "{% if documents %}{{ raise_exception('No documents.') }}{% endif %}" + TURNS


def asked(template, documents=DOCUMENTS, messages=CHAT):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    return tokenizer, GenerationRequest(messages=messages, documents=documents)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        (GRANITE, "<7>A <b>.<1>[user]Why?"),
        (COMMAND, '0{"doc_id": "7", "title": "Terms", "text": "A <b>."}'),
    ],
)
def test_a_template_that_shows_documents_gets_them(template, shown):
    tokenizer, request = asked(template)
    assert rendered_chat(tokenizer, request).startswith(shown)
    assert left_out(tokenizer, request) == ()


@pytest.mark.parametrize("template", [TURNS, SOME])
def test_elsewhere_they_go_before_the_last_message_of_the_user_with_a_warning(template):
    tokenizer, request = asked(template)
    assert rendered_chat(tokenizer, request) == (
        "[user]Why?[assistant]So.[user]Documents:\n\n[7] Terms\nA <b>.\n\n[1]\n\n\nHow?"
        "[assistant]Thus."
    )
    assert left_out(tokenizer, request) == (Warned.DOCUMENTS_IN_MESSAGE,)
    tokenizer, without = asked(template, ())
    assert left_out(tokenizer, without) == ()


def test_a_template_that_fails_on_them_is_not_taken_for_one_that_shows_none():
    tokenizer, request = asked(REFUSES)
    with pytest.raises(ChatTemplateError) as refused:
        encode_chat(tokenizer, request)
    assert refused.value.field == "documents"


@pytest.mark.parametrize("template", [GRANITE, TURNS])
def test_a_special_token_that_a_document_spells_out_is_text(template):
    spelt = "".join(byte_tokenizer().all_special_tokens)
    assert spelt
    documents = ({"doc_id": "0", "title": "", "text": f"A {spelt}."},)
    tokenizer, request = asked(template, documents)
    assert not set(encode_chat(tokenizer, request)) & set(tokenizer.all_special_ids)


def test_beside_an_image_they_are_a_text_before_it():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = {"role": "user", "content": "What?", PARTS: [image]}
    request = GenerationRequest(messages=(message,), documents=DOCUMENTS[:1])
    [said] = request.with_documents_said().messages
    block = "Documents:\n\n[7] Terms\nA <b>.\n\n"
    assert said["content"] == f"{block}What?"
    assert said[PARTS] == [{"type": "text", "text": block}, image]
    assert message[PARTS] == [image]

"""Pure: what an answer adds to its question, which is what tells answers to one question apart.

Sentences about one subject are alike whatever they say of it.
"""

import re

# Words that say nothing by themselves, in the languages of `models.similarity.numbers`.
FUNCTION_WORDS = frozenset(
    word
    for words in (
        "a an the and or of in on at to from by with for as is are was were be been being am",
        "has have had do does did will would can could may might must shall should it its he",
        "she they them his her their this that these those there here i you we my your our me",
        "us who which",
        "what when where how so also very just called known named situated located der die",
        "das den dem des ein eine einen einem einer und oder von vom in im an am auf zu zum",
        "zur aus bei mit für als ist sind war waren sein wird werden wurde hat haben es er",
        "sie ihr",
        "sein ihre dies dieser diese dieses dort hier ich du wir mein dein unser wer was wann",
        "wo wie le la les un une des de et ou à au aux dans sur en par avec pour est sont",
        "était être a",
        "ont il elle ils elles ce cet cette ces son sa ses qui que quoi où quand comment je",
        "tu nous el los las una unos unas del y o al con por para es era fue ser ha han está",
        "están ello",
        "ella ellos este esta estos ese esa su sus que quien donde cuando como yo tú il lo",
        "gli i uno di da nel nella sul con per tra è sono era essere ha hanno esso essa",
        "questo",
        "questa quello suo sua che chi dove quando come io noi o os as um uma do da dos das",
        "na nos nas ao com por para é são era foi ser tem têm ele",
    )
    for word in words.split()
)
_SHORT_NOT = re.compile(r"n['\u2019]t$|^cannot$", re.IGNORECASE)
# Of scripts without blanks each character is a word.
_WORD = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    r"|[^\W_]+(?:['\u2019.,:-][^\W_]+)*[+#%]*"
)


def words(text: str) -> list[str]:
    """The words of a text as they are written.

    >>> words("It's C++ (10%), 東京.")
    ["It's", 'C++', '10%', '東', '京']
    """
    return _WORD.findall(text)


def added(text: str, asked: frozenset[str]) -> str:
    """What a text says beyond its question: its words without those, and without function words.

    A text that adds nothing is what it says beside function words, or where that is nothing either,
    whole. Numbers always stay, and names that are spelled as a function word.

    Args:
        text: an answer.
        asked: the words of its question in lower case.

    >>> added("The capital of Peru is Lima.", frozenset(("capital", "peru")))
    'Lima'
    """
    said = []
    for number, word in enumerate(words(text)):
        is_name = number > 0 and word[0].isupper() and len(word) > 1
        if _SHORT_NOT.search(word):
            said.append("not")  # the verb before it says nothing
        elif is_name or word.casefold() not in FUNCTION_WORDS:
            said.append(word)
    new = [word for word in said if word[0].isdigit() or word_set(word).isdisjoint(asked)]
    return " ".join(new) or " ".join(said) or text


def containment(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the words of the text with fewer of them that the other has; 1 for two without any.

    >>> containment(frozenset(("leo", "tolstoy")), frozenset(("tolstoy",)))
    1.0
    """
    if not a or not b:
        return float(a == b)
    return len(a & b) / min(len(a), len(b))


def share_said(statement: frozenset[str], text: frozenset[str]) -> float:
    """Share of a statement's words that a text has, too; of one without any, whether it has none.

    >>> share_said(frozenset(("lima", "1535")), frozenset(("lima", "peru")))
    0.5
    """
    if not statement:
        return float(not text)
    return len(statement & text) / len(statement)


def word_set(text: str) -> frozenset[str]:
    """The distinct words of a text in lower case, without the 's of a possessive."""
    text = text.casefold().replace("\u2019", "'")
    return frozenset(word.removesuffix("'s") for word in words(text))

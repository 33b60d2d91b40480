"""What answers add to their question, in several languages and scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.similarity.added import Words, containment, question_words, words_of
from models.similarity.pairs import PairRules, PairTable, TextRules
from models.similarity.reading import asked_in, read

CAPITAL = "What is the capital of Peru?"
TEXT = "Lima is the capital of Peru. Cusco was the capital of the Incas. See a.org?x=1"
# A text to read and its question, in the ways in which people write them.
IN_CONTEXT = (
    f"{TEXT}\n\nQuestion: {CAPITAL}\nAnswer:",
    f"Context:\n{TEXT}\n{CAPITAL} Use the context alone.",
    f"Question: {CAPITAL}\n\nContext: {TEXT}\n\nAnswer in a sentence.",
    f"Dr. No lives in Lima. In no. 12. {CAPITAL}",
)


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("What is the capital of Peru?", "It is the capital.", "yes"),
        ("¿Cuál es la capital del Perú?", "La capital del Perú es Lima.", "Lima"),
        ("秘鲁的首都是什么", "秘鲁的首都是利马", "利马"),
        ("Is it safe?", "It is not safe.", "no"),
        ("Can penguins fly?", "Penguins cannot fly.", "no"),
        ("Is Rome larger than Bari?", "Bari is larger than Rome.", "larger Rome"),
        ("Is 7 prime?", "7 is prime.", "yes"),
        ("Ist das wahr?", "Ja.", "yes"),
        ("What was the score?", "It was 5 to 3.", "5 - 3"),
        ("When?", "On May 3 at 5 am", "May 3 5 am"),
        ("Which vitamin?", "It is vitamin A. A carrot has it.", "A carrot"),
        ("Who?", "It was Elizabeth I, as I know.", "Elizabeth I"),
        (
            "Which is longer, the Nile or the Amazon?",
            "Both the Nile and the Amazon are long, but the Nile is longer than the Amazon.",
            "Nile long Nile",
        ),
        (
            "Which is larger, Jupiter or Saturn?",
            "Saturn is smaller than Jupiter.",
            "smaller Jupiter",
        ),
        (
            "Jupiter or Saturn, which is larger?",
            "Jupiter isn't smaller than Saturn.",
            "Jupiter not smaller",
        ),
        ("Which city is it?", "It is Lima, not Cusco.", "Lima not"),
        ("Which city is it?", "It is not Cusco but Lima.", "not Lima"),
        ("Which cities?", "Not only Cusco but also Lima", "Not Lima"),
        ("Which option?", "A carrot is meant.", "carrot meant"),
        ("Is het gevaarlijk?", "Het is niet gevaarlijk.", "no"),
        ("Is it Sydney or Canberra?", "It is not Sydney.", "not Sydney"),
        ("Has A more people than B? Yes or no?", "Yes, A has more.", "Yes"),
        ("राजधानी क्या है?", "राजधानी दिल्ली है", "दिल्ली"),
        ("首都は?", "首都は東京都です", "東京 京都"),
    ],
)
def test_what_a_text_adds_is_what_tells_it_from_other_answers(question, text, expected):
    assert added(question, text) == expected


def added(question, text):
    return TextRules(PairRules(cuts=True), (question,)).compared(text)


def similarity(question, a, b, earlier=()):
    rules = TextRules(PairRules(cuts=True, by_words=True), (*earlier, question))
    return PairTable(("similarity",), {}, rules).both_directions(a, b, "similarity")


@pytest.mark.parametrize("prompt", IN_CONTEXT)
def test_what_a_text_to_read_says_is_no_part_of_the_question(prompt):
    assert asked_in(prompt).removeprefix("Question: ") == CAPITAL
    lima, cusco = "The capital of Peru is Lima.", "The capital of Peru is Cusco."
    assert similarity(prompt, lima, cusco) == 0
    assert similarity(prompt, lima, "According to the context, it is Lima.") == 1
    assert similarity(prompt, "The text says that it is Cusco.", "Based on the text, Lima.") == 0


@pytest.mark.parametrize(
    ("question", "a", "b"),
    [
        ("What should I do with the stock?", "Recommendation: buy", "Recommendation: sell"),
        ("How is the tank?", "The tank is full.", "The tank is empty."),
        ("What does Anna have?", "Anna has a dog.", "Anna has a cat."),
        ("Where is the key?", "The key is in the car.", "The key is in the door."),
        ("Which statistic is it?", "Statistic: mean", "Statistic: mode"),
        ("Which colour is it: red, green, blue?", "It is red.", "It is blue."),
        ("Sort it as sports, politics, or science.", "Category: sports", "Category: politics"),
        ("Which is in France: Paris, Rome, Lima?", "The answer is Paris.", "The answer is Rome."),
    ],
)
def test_what_says_nothing_elsewhere_or_stands_in_the_question_may_be_the_answer(question, a, b):
    assert similarity(question, a, b) <= 0.5
    assert similarity(question, a, a.rpartition(" ")[2]) == 1


OLDEST = "If Tom is older than Jim and Jim is older than Sam, who is the oldest?"
LABELS = "Pick one option:\n- positive\n- negative\n- neutral\n\nReview: I love it."
FINAL = "Who won the final between Brazil and Germany?"


@pytest.mark.parametrize(
    ("question", "a", "b", "expected"),
    [
        (FINAL, "Brazil", "Germany", 0),
        (FINAL, "The winner was Brazil.", "The winner was Germany.", 0),
        (FINAL, "Brazil", "Brazil won.", 1),
        (OLDEST, "Tom", "Jim", 0),
        (OLDEST, "Tom", "Jim is the oldest.", 0),
        (OLDEST, "The oldest is Tom.", "Jim is the oldest.", 0),
        (OLDEST, "The answer is Tom.", "The answer is Jim.", 0),
        (OLDEST, "Tom", "Tom is the oldest.", 1),
        (LABELS, "positive", "negative", 0),
        (LABELS, "The sentiment is positive.", "The sentiment is negative.", 0),
        ("Which city: Anna flew from Rome to Lima.", "Rome", "The city is Lima.", 0),
        ("Of Anna and Bert, who is older?", "Anna is older.", "Bert is older.", 0),
        ("Wer gewann, Peru gegen Chile?", "Der Gewinner ist Peru.", "Der Gewinner ist Chile.", 0),
        ("法国和意大利谁赢了\uff1f", "法国", "意大利", 0),
        ("Is the sky blue?", "The sky is blue.", "Blue.", 1),
        ("What is the name of the author?", "The author is Orwell.", "The name is Orwell.", 1),
        ("When did Napoleon invade Russia?", "Napoleon: 1812", "Russia: 1812", 1),
        ("What is the capital city of Peru?", "The capital is Lima.", "The city is Lima.", 1),
    ],
)
def test_answers_that_pick_other_words_of_the_question_differ(question, a, b, expected):
    assert similarity(question, a, b) == similarity(question, b, a) == expected


SAFE = "Is it safe?"


@pytest.mark.parametrize(
    ("question", "a", "b", "expected"),
    [
        (SAFE, "I don't know.", "No.", 0),
        (SAFE, "I'm not sure.", "It is not safe.", 0),
        (SAFE, "Not always.", "No.", 0),
        (SAFE, "No — it is poison.", "No.", 1),
        (SAFE, "It is not clear.", "No, it is not.", 0),
        (SAFE, "I don't know.", "I do not know.", 1),
        ("Ist es sicher?", "Das ist nicht bekannt.", "Nein.", 0),
        ("¿Es seguro?", "No lo es.", "No.", 1),
        ("Ist es sicher?", "Ich weiß es nicht.", "Nein.", 0),
        ("Est-ce sûr\u202f?", "Je ne sais pas.", "Non.", 0),
        ("È sicuro?", "Non so.", "Non è sicuro.", 0),
        ("安全吗\uff1f", "我不知道。", "不安全。", 0),
        ("安全吗\uff1f", "这不安全。", "不安全。", 1),
        ("安全吗\uff1f", "安全。", "是的。", 1),
        ("Is het veilig?", "Het is niet veilig.", "Nee.", 1),
        ("Can penguins fly?", "Penguins are not able to fly.", "No.", 1),
        ("Can dogs eat grapes?", "Dogs should not eat them.", "No, they can't.", 1),
        ("Are whales fish?", "No, whales are mammals.", "No", 1),
        ("Are whales fish?", "The answer is no.", "No", 1),
        ("Are whales fish?", "Answer: **No**", "They are not.", 1),
        ("Are whales mammals?", "Final answer: Yes", "Yes.", 1),
        ("Sind Wale Fische?", "Nein, Wale sind Säugetiere.", "Nein.", 1),
        ("Sind Wale Fische?", "Nein, das ist nicht möglich.", "Nein.", 1),
    ],
)
def test_who_does_not_know_does_not_say_no(question, a, b, expected):
    assert similarity(question, a, b) == similarity(question, b, a) == expected


def test_function_words_are_those_of_the_language_of_a_question_or_a_text():
    english, german = "Where is Lyon? Answer in German.", "Wo ist Lyon?"
    for question in (english, german):
        assert similarity(question, "Es ist in Frankreich.", "Lyon liegt in Frankreich.") == 1
    assert similarity("", "the red dog", "the red door") == 0.5


def test_an_answer_may_go_on_with_the_words_of_earlier_questions_but_their_names():
    earlier = ["What is the capital of Peru?", "Text: It is a red city.\nIs it as large as Cusco?"]
    santiago, valdivia = "The capital of Chile is Santiago.", "Valdivia is Chile's capital."
    assert similarity("And of Chile?", santiago, valdivia) == 0.5
    assert similarity("And of Chile?", santiago, valdivia, earlier) == 0
    assert (
        similarity("And which one is larger?", "Cusco is larger.", "Lima is larger.", earlier) == 0
    )
    assert similarity("And its colour?", "It is red.", "It is green.", earlier) == 0


def test_a_script_without_blanks_has_sentences_too():
    prompt = "利马是秘鲁的首都。秘鲁的首都是哪里\uff1f请简短回答。"
    assert asked_in(prompt) == "秘鲁的首都是哪里\uff1f"


def test_answered_questions_in_front_of_the_last_one_are_no_part_of_it():
    shots = "Q: On which continent is Chile?\nA: South America\n\nQ: And Mali?\nA: Africa\n\n"
    prompt = f"{shots}Q: On which continent is Kenya?\nA:"
    assert similarity(prompt, "Africa", "East Africa") == 1
    assert similarity(f"Q: Is it safe?\nText: {TEXT}", "Yes.", "It is not safe.") == 0
    assert similarity(f"Q: Is it safe?\nText: {TEXT}", "No.", "It is not safe.") == 1
    assert asked_in(f"{shots}Name a continent.") == "Q: And Mali?"
    assert asked_in("Name a continent.\nBe short.") == "Name a continent. Be short."


def test_a_long_text_is_no_part_of_what_is_to_be_done_with_it():
    prompt = f"Name the city that is the capital, by this text:\n{f'{TEXT} ' * 9}\n\nBe short."
    lima, cusco = "The capital is the city of Lima.", "The city is Cusco."
    assert similarity(prompt, lima, "Lima") == 1
    assert similarity(prompt, lima, cusco) == 0
    assert asked_in("word " * 200) == "word " * 200


@pytest.mark.parametrize(
    ("question", "a", "b", "expected"),
    [
        ("Which planet?", "Mars", "Venus", 0),
        (
            "What is the capital of Peru?",
            "The capital of Peru is Lima.",
            "The capital of Peru is Cusco.",
            0,
        ),
        ("Which is larger, Jupiter or Saturn?", "Saturn is smaller than Jupiter.", "Jupiter", 1),
        ("Which is larger, Jupiter or Saturn?", "Saturn is smaller than Jupiter.", "Saturn", 0),
        ("Which city is it?", "It is Lima, not Cusco.", "Cusco", 0),
        ("What is it?", "(a+b)^2", "a^2+b^2", 0),
        ("What is it?", "x^2", "2x", 0),
        ("How cold?", "20 degrees", "20 °C", 1),
        ("Stimmt das?", "Ja", "Ja, das stimmt.", 1),
        ("Is it safe?", "✓", "✗", 0),
        ("How is it?", "👍", "👎", 0),
        ("How is it?", "{}", "[]", 0),
        ("When is the meeting?", "The meeting is on Tuesday.", "It is on Friday.", 0),
        ("How old is it?", "It is 24.", "It is 42 years old.", 0),
        ("Is it safe?", "Yes, it is safe.", "No, it is not safe.", 0),
        ("Is it safe?", "Yes.", "", 0),
        ("What of it?", "The plant is poisonous.", "The plant isn't poisonous.", 0),
        ("What of it?", "In fact, the lake is salty.", "The lake isn't salty.", 0),
        ("How cold?", "It is -40.", "It is 40.", 0),
        ("How many?", "> 5", "< 5", 0),
        ("How far?", "It is 5km there.", "It is 5m there.", 0),
        ("What does it print?", "10 - 5", "10 + 5", 0),
        ("How much?", "50 %", "50%", 1),
        ("What was the score?", "5 to 3", "3 to 5", 0),
        ("When?", "1999-05-03", "May 3, 1999", 1),
        ("When?", "It opens at 5 am.", "It opens at 5 pm.", 0),
        ("Which vitamin?", "It is vitamin A.", "It is vitamin C.", 0),
        ("Which one?", "The answer is option A.", "The answer is option B.", 0),
        ("日本的首都?", "东京", "京都", 0),
        ("秘鲁的首都是哪里?", "利马是秘鲁的首都", "秘鲁的首都是利马", 1),
        ("安全?", "是安全的", "不安全", 0),
        ("安全?", "安全です", "安全ではない", 0),
        ("राजधानी?", "दिल्ली", "मुंबई", 0),
        ("어디?", "서울입니다", "서울", 1),
        ("Which molecule?", "It is H2O.", "It is H2O2.", 0),
        ("How long is it?", "5 hours", "5", 1),
        ("How many minutes are 4 hours?", "4 hours is 240 minutes.", "4 hours are 120 minutes.", 0),
        ("When is it?", "It is at 5.", "5 pm", 1),
        ("Which value?", "x = 5", "5", 1),
        ("Which site?", "ghana.io", "ghana.com", 0),
        ("Which country?", "Guinea", "Guinea-Bissau", 0),
        ("Who?", "Will Smith", "Kevin Smith", 0.5),
        ("When?", "the 3rd of May", "3 May", 1),
        ("Wat is de hoofdstad?", "Het is Amsterdam.", "Het is Rotterdam.", 0),
        ("Какая столица?", "Это Москва.", "Это Париж.", 0),
        ("Başkenti neresidir?", "Bu Ankara'da.", "Bu Bursa'da.", 0),
        ("ما هي العاصمة؟", "هي القاهرة.", "هي الرياض.", 0),
        ("How long does it take?", "It takes O(n) steps.", "O(n^2)", 0),
        ("Which part?", "len(a)", "len(b)", 0),
        ("Where is it?", "It is at (1, 2).", "(2,1)", 0),
        ("Where is it?", "It is at (1, 2).", "(1,2)", 1),
        ("What is it?", "x - y", "xy", 0),
        ("What is it?", "x-y", "xy", 0),
        ("Which country?", "مِصر", "هي مصر", 1),
        ("Which country?", "יִשְׂרָאֵל", "ישראל", 1),
        ("Which one?", "option a", "option b", 0.5),
        ("Which one?", "The answer is I.", "The answer is II.", 0.5),
        ("What is left?", "5--3", "5-3", 0),
        ("How many?", "6.022 × 10²³", "6.022 x 10^24", 0),
        ("How much?", "5 MPa", "5 mPa", 0),
        ("Which country?", "オーストリア", "オーストラリアです", 0),
        ("Which man?", "レオナルド・ダ・ヴィンチ", "ダ・ヴィンチ", 1),
        ("How long?", "5 to 7 days", "5–7 days", 1),
        ("How long?", "5 bis 7 Tage", "5-7 Tage", 1),
        ("What was the score?", "5 to 3", "3-5", 0),
        ("When?", "in WWI", "in World War II", 0),
        ("What?", "four", "fore", 0),
        ("Can it be?", "It is hardly possible.", "It is possible.", 0),
    ],
)
def test_answers_are_as_alike_as_what_they_add(question, a, b, expected):
    assert similarity(question, a, b) == similarity(question, b, a) == expected


FRAMES = "**X** *X* x=X x=**X** $X$ (X) Answer:X [X] →X ≈X 2*X a/X <X **X_°C** **X%**"
OPTIONS = r"""X (X) X) **X** Answer:_X Answer:_(X) **Answer:**_X The_answer_is_(X).
The_answer_is:_X The_answer_is_**X**. Option_(X) X_is_correct. Is_it_"X"?
X,_I_think. Final_answer:_`X` 答案是X {"answer":_"X"} The_answer_is_X,_of_course."""


@pytest.mark.parametrize("letter", "ABC")
@pytest.mark.parametrize("frame", OPTIONS.split())
def test_the_letter_of_an_option_is_no_article(letter, frame):
    said = frame.replace("_", " ").replace("X", letter)
    other = chr(ord(letter) + 1)
    for question in ("Which answer is correct?", "Which option? A) Lima B) Cusco C) Puno D) Ica"):
        assert similarity(question, said, letter) == 1
        assert similarity(question, said, other) == 0
        assert similarity(question, said, said.replace(letter, other)) <= 0.5


@pytest.mark.parametrize("frame", FRAMES.split())
@pytest.mark.parametrize("number", ["5", ".5", "1,000", "7.25"])
def test_a_number_below_0_is_so_behind_marks_and_signs(frame, number):
    above, below = (frame.replace("_", " ").replace("X", one) for one in (number, f"-{number}"))
    assert similarity("What is it?", above, below) <= 0.5
    assert similarity("What is it?", below, f"It is {below}.") == 1


def test_what_is_cut_does_not_count_as_an_exact_match():
    rules = PairRules(cuts=True)
    assert rules.matches("It is Lima.", ["Lima", " It is Lima. "]).tolist() == [0, 1]


@given(st.text(max_size=80), st.text(max_size=80))
def test_something_of_a_text_always_stays(text, question):
    assert bool(added(question, text)) == bool(text.strip())


WORDS = st.frozensets(st.text(max_size=3))


@given(WORDS, WORDS, WORDS, WORDS)
def test_containment_is_symmetric_and_within_its_bounds(one, two, three, four):
    a, b = Words(one, two), Words(three, four)
    assert containment(a, b) == containment(b, a)
    assert 0 <= containment(a, b) <= 1
    assert containment(a, a) == 1 or not (one and two)


@pytest.mark.parametrize("text", ["十" * 5000, "一" * 5000, "千万亿" * 3000, "1.5" + "亿" * 5000])
def test_a_run_of_numerals_that_is_no_number_is_read_all_the_same(text):
    assert words_of(read(text)).exact


def test_only_the_end_of_a_prompt_is_read():
    assert question_words("the capital of Peru " * 10_000).repeated == {"capital", "peru"}
    assert len(asked_in("word " * 100_000)) <= 2_000

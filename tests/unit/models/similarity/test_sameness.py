"""What rules say of two short texts, in six languages, and in any frame."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from models.similarity.numbers import Number
from models.similarity.pairs import PairRules, PairTable
from models.similarity.reading import Item, read
from models.similarity.sameness import reading, relation

SAME = [
    ("quarter past three", "3:15"),
    ("half past four", "4:30"),
    ("quarter to one", "12:45"),
    ("at noon", "at 12:00"),
    ("10 Uhr", "10:00"),
    ("15h30", "15:30"),
    ("five per cent", "5%"),
    ("USD 5", "$5"),
    ("2nd", "second"),
    ("the nineteenth century", "the 19th century"),
    ("Louis XIV", "Louis the Fourteenth"),
    ("1 h 30 min", "90 minutes"),
    ("5 ft 3 in", "63 inches"),
    ("0.5", ".5"),
    ("-.5", "-0.5"),
    ("1e-3", "0.001"),
    ("1 000 000", "1,000,000"),
    ("F-16", "F16"),
    ("15 mg twice a day", "15 mg two times a day"),
    ("5 км", "5 km"),
    ("1,5 миллиона", "1.5 million"),
    ("29 % 5", "29 mod 5"),
    ("有十二个座位", "有12个座位"),
    ("一九四五年", "1945年"),
    ("三月", "3月"),
    ("一亿四千万人", "1.4亿人"),
    ("第三", "第3"),
    ("二百零五", "205"),
    ("これは十二です", "これは12です"),
    ("12", "twelve"),
    ("1,000", "1000"),
    ("It is the Eiffel Tower.", "it is Eiffel tower"),
    ("It isn't safe.", "It is not safe!"),
    ("twenty-one", "21"),
    ("two hundred and five", "205"),
    ("two thousand five hundred", "2,500"),
    ("5 km", "5000 m"),
    ("67,971 mph", "67,971 miles per hour"),
    ("50 km/h", "50 kilometres an hour"),
    ("50 km/h", "50 Stundenkilometer"),
    ("50 km/h", "50 kilómetros por hora"),
    ("3 m/s", "3 metres per second"),
    ("9.8 m/s²", "9.8 metres per second squared"),
    ("643,801 km²", "643,801 square kilometers"),
    ("643,801 km2", "643,801 Quadratkilometer"),
    ("10 m³", "10 cubic meters"),
    ("25 ha", "250,000 m²"),
    ("5 MW", "5 megawatts"),
    ("5 kWh", "5 kilowatt hours"),
    ("60 Hz", "60 hertz"),
    ("5 cl", "50 ml"),
    ("5 µs", "5 microseconds"),
    ("5 GB", "5 gigabytes"),
    ("£100", "100 pounds"),
    ("It costs $5.", "It costs 5 dollars."),
    ("5 million people", "5,000,000 people"),
    ("1 billion", "1,000,000,000"),
    ("10 %", "10 percent"),
    ("8 May 1945", "May 8, 1945"),
    ("8 May 1945", "1945-05-08"),
    ("10:25 pm", "22:25"),
    ("The roots are 3 and 5.", "The roots are 5 and 3."),
    ("einundzwanzig Jahre", "21 Jahre"),
    ("1.000 Euro", "1000 €"),
    ("08.05.1945", "8. Mai 1945"),
    ("1,5 Liter", "1.5 Liter"),
    ("quatre-vingt-dix-sept", "97"),
    ("soixante et onze", "71"),
    ("L'eau", "eau"),
    ("treinta y cinco", "35"),
    ("veintidós", "22"),
    ("ventuno", "21"),
    ("trentadue anni", "32 anni"),
    ("vinte e dois", "22"),
    ("17 cm", "17 centimetres"),
    ("It is 24 °C.", "It is 24 degrees Celsius."),
    ("9 ounces", "9 oz"),
    ("It cannot be restored.", "It can't be restored."),
    ("The plant is green.", "the plant is green"),
    ("The Hague", "Hague"),
    ("World War II", "World War 2"),
    ("6 p.m.", "18:00"),
    ("5 PM", "5:00 p.m."),
    ("1/2", "0.5"),
    ("minus 5 degrees", "-5 degrees"),
    ("moins cinq degrés", "-5 degrés"),
    ("44 B.C.", "44 BC"),
    ("type I diabetes", "type 1 diabetes"),
    ("a phase III trial", "a phase 3 trial"),
    ("2 \u00d7 3", "2 * 3"),
    ("10 \u2212 5", "10 - 5"),
    ("**Paris**", "Paris"),
    ("1939 \u2013 1945", "1939-1945"),
    ("- Paris", "Paris"),
    ("n'est-ce pas", "n\u2019est-ce pas"),
    ("1e6", "1,000,000"),
    ("3 \u00d7 10^8 m/s", "300,000,000 m/s"),
    ("10\u2078", "100,000,000"),
    ("two thirds", "2/3"),
    ("one half", "0.5"),
    ("5½ hours", "5.5 hours"),
    ("two dozen", "24"),
    ("a hundred and five", "105"),
    ("12 months", "1 year"),
    ("1 kW", "1000 W"),
    ("$5$", "5"),
    (r"\boxed{\frac{1}{2}}", "1/2"),
    ("x² + 1", "x^2 + 1"),
    ("J. R. R. Tolkien", "J.R.R. Tolkien"),
    ("the U.S.", "US"),
    ("Panama-City", "Panama City"),
    ("3. Mai", "3 May"),
    ("Anna hired Bert.", "Bert was hired by Anna."),
    ("Rosa praised Clara for years.", "Clara was praised by Rosa for years."),
    ("Rosa Parks praised Clara.", "Clara was praised by Rosa Parks."),
    ("Fire destroyed the house.", "The house was destroyed by fire."),
    ("O(n*log(n))", "O(n log n)"),
    ("$O(n \\log n)$", "O(n log n)"),
    ("O(V + E)", "O(E+V)"),
    ("{1,2}", "{2, 1}"),
    ("The roots are 1 and 2.", "The roots are 2 and 1."),
    ("\\theta", "\u03b8"),
    ("\\sqrt{3}", "\u221a3"),
    ("5'10\"", "5 ft 10 in"),
    ("v2.0", "version 2.0"),
]
DIFFERENT = [
    ("It is 24.", "It is 42."),
    ("Take 15 mg twice a day.", "Take 51 mg twice a day."),
    ("In 1945.", "In 1954."),
    ("The room is 207.", "The room is 270."),
    ("It was in 1945.", "The war ended in 1954, they say."),
    ("It is 10:25.", "It is 10:52."),
    ("version 3.11.4", "version 3.11.7"),
    ("2026-03-04", "2026-04-03"),
    ("8 May 1945", "8 June 1945"),
    ("5 km", "5 miles"),
    ("5 kg", "5 g"),
    ("20 °C", "20 °F"),
    ("-5", "5"),
    ("3-1", "1-3"),
    ("3/4", "4/3"),
    ("3 apples and 5 pears", "5 apples and 3 pears"),
    ("the 21st century", "the 19th century"),
    ("COVID-19", "COVID-91"),
    ("It is safe.", "It is not safe."),
    ("It can't work.", "It can work."),
    ("Yes.", "No."),
    ("Es ist sicher.", "Es ist nicht sicher."),
    ("Ja.", "Nein."),
    ("C'est sûr.", "C'est pas sûr."),
    ("Es seguro.", "Nunca es seguro."),
    ("È sicuro.", "Non è sicuro."),
    ("É seguro.", "Não é seguro."),
    ("zwölf Stunden", "zwanzig Stunden"),
    ("trois jours", "treize jours"),
    ("24 degrees Celsius", "24 degrees Fahrenheit"),
    ("Yes. The lake is salty.", "The lake is not salty."),
    ("In fact, the plant is poisonous.", "The plant isn't poisonous."),
    ("As far as I know the train stops here and there.", "The train never stops here."),
    ("Es ist wohl sicher.", "Das ist nicht sicher."),
    ("C'est sûr.", "Ce n'est pas sûr."),
    ("Это безопасно.", "Это не безопасно."),
    ("Het is veilig.", "Het is niet veilig."),
    ("Vitamin A", "Vitamin C"),
    ("O negative", "A negative"),
    ("Blood group A-", "Blood group A+"),
    ("The answer is (B).", "The answer is (D)."),
    ("Elizabeth I", "Elizabeth II"),
    ("Charles V of Spain", "Charles IV of Spain"),
    ("44 BC", "44 AD"),
    ("5 am", "5 pm"),
    ("at 6 a.m.", "at 6 p.m."),
    ("1/2", "3/4"),
    ("minus 5 degrees", "5 degrees"),
    ("10 - 5", "5 - 10"),
    ("Order 123456789012", "Order 123456789021"),
    ("IBAN DE89370400440532013000", "IBAN DE89370400440532013001"),
    ("12345678901234567890", "12345678901234567891"),
    ("10 - 5", "10 + 5"),
    ("x < y", "x > y"),
    ("at least 5, so ≥ 5", "at least 5, so ≤ 5"),
    ("Type I diabetes", "Type II diabetes"),
    ("phase II", "phase III"),
    ("1e6", "1e7"),
    ("3 \u00d7 10^8", "3 \u00d7 10^9"),
    ("one third", "two thirds"),
    ("100 km/h", "100 mph"),
    ("100 kilometers per hour", "100 miles per hour"),
    ("643,801 km²", "643,801 square miles"),
    ("643,801 km²", "643,801 km"),
    ("5 acres", "5 hectares"),
    ("5 mW", "5 MW"),
    ("3 V", "3 A"),
    ("5 knots", "5 km/h"),
    ("£100", "$100"),
    ("5 m²", "5 m³"),
    ("x == y", "x != y"),
    ("x += 1", "x -= 1"),
    ("p && q", "p || q"),
    ("P \u222a Q", "P \u2229 Q"),
    ("2x + 3", "2x - 3"),
    ("5 years", "5 months"),
    ("non-toxic", "toxic"),
    ("v1.2.3", "v1.3.2"),
    ("R2D2", "R2D3"),
    ("South America", "North America"),
    ("more than 5", "less than 5"),
    ("at least 10 men", "at most 10 men"),
    ("It is legal.", "It is illegal."),
    ("vor 1990", "nach 1990"),
    ("Everybody came.", "Nobody came."),
    ("有十二个座位", "有二十一个座位"),
    ("It is bigger than 10.", "It is smaller than 10."),
    ("Yes, 7 is prime.", "No, 7 is not prime."),
    ("0.5", "5"),
    (".5", "5"),
    ("15 mg twice a day", "15 mg three times a day"),
    ("once a week", "twice a week"),
    ("up to 5", "at least 5"),
    ("75%", "0.5"),
    ("1 month 11 days", "11 days"),
    ("half past four", "half past five"),
    ("B-12", "B-6"),
    ("三十", "13"),
    ("Brazil beat Italy 4-1.", "Italy beat Brazil 4-1."),
    ("Yes, in 146 BC Rome defeated Carthage.", "Yes, in 146 BC Carthage defeated Rome."),
    ("Bank of America acquired Merrill Lynch.", "Merrill Lynch acquired Bank of America."),
    ("Peter is taller than Paul.", "Paul is taller than Peter."),
    ("Der Hund beißt den Mann.", "Der Mann beißt den Hund."),
    ("La France a vaincu la Prusse.", "La Prusse a vaincu la France."),
    ("The dog bit the man.", "The man bit the dog."),
    ("from Rome to Lima", "from Lima to Rome"),
    ("Mix the sugar into the flour.", "Mix the flour into the sugar."),
    ("x > y", "y > x"),
    ("(1, 2)", "(2, 1)"),
    ("(1,2)", "(2,1)"),
    ("[3, -4]", "[-4, 3]"),
    ("f(2)", "f(3)"),
    ("Anna hired Bert.", "Anna was hired by Bert."),
    ("Newton praised Parks in Rome.", "Newton was praised by Parks in Rome."),
    ("Rosa Parks praised Clara in May.", "Rosa Parks was praised by Clara in May."),
    ("The man bitten by the dog.", "The dog bitten by the man."),
]
OF_A_MODEL = [
    ("75%", "0.75"),
    ("One second later", "2nd"),
    ("in half a year", "in 6 months"),
    ("The third man", "The 3rd of May"),
    ("万一下雨", "10001下雨"),
    ("一个医生", "医生"),
    ("Spain borders France.", "France borders Spain."),
    ("x + y", "y + x"),
    ("O(n)", "O(n log n)"),
    ("ls -a", "ls -l"),
    ("option(s)", "option"),
    ("(1,000)", "1"),
    ("Mix the sugar with the flour.", "Mix the flour with the sugar."),
    ("the red or the blue", "the blue or the red"),
    ("Anna plays with Bert.", "Bert plays with Anna."),
    ("Peter is as tall as Paul.", "Paul is as tall as Peter."),
    ("Mark Twain is Samuel Clemens.", "Samuel Clemens is Mark Twain."),
    ("Rome, Paris and Lima", "Lima, Paris and Rome"),
    ("Red, green and blue", "Blue, green and red"),
    ("Äpfel, Birnen und Pflaumen", "Pflaumen, Birnen und Äpfel"),
    ("In Paris it rained.", "It rained in Paris."),
    ("Spain won, Italy lost.", "Italy lost, Spain won."),
    ("2 cats bitten 3 dogs", "3 dogs were bitten by 2 cats"),
    ("Anna wrote it.", "It was written by Anna."),
    ("\u221a2", "2"),
    ("H2O", "H2O2"),
    ("the third day of 2010", "2/3 of 2010"),
    ("in 2008, days later", "in 2008 it was later"),
    ("Guinea", "Guinea-Bissau"),
    ("more than 5", "greater than 5"),
    ("Zürich", "Zurich"),
    ("In 1945", "On 8 May 1945"),
    ("Paris", "Rome"),
    ("C++", "C"),
    ("10%", "10"),
    ("15 mg", "15"),
    ("Option A", "Option"),
    ("a = b", "a b"),
    ("It was 3:1.", "It was 3-1."),
    ("On 5/4", "On May 4"),
    ("Yes I do.", "Yes, they do."),
    ("No Smoking", "Smoking"),
    ("No. 5", "5"),
    ("1939-1945", "1945"),
    ("one of them", "two of them"),
    ("!!!", "???"),
    ("It happened once.", "It happened 11 times."),
    ("It is not Lima but Cusco.", "Cusco"),
    ("It is not.", "It is Lima."),
    ("No, it is not safe.", "It is safe, but not for children."),
]


@pytest.mark.parametrize(
    ("expected", "a", "b"),
    [
        *(("same", *pair) for pair in SAME),
        *(("different", *pair) for pair in DIFFERENT),
        *((None, *pair) for pair in OF_A_MODEL),
    ],
)
def test_pairs_are_related_as_a_reader_would_say_in_either_order(expected, a, b):
    assert relation(reading(a), reading(b)) == relation(reading(b), reading(a)) == expected


def test_numbers_of_the_question_tell_no_answers_apart():
    a, b = reading("It lasted 6 years."), reading("The war of 1939 lasted from 1 September.")
    assert relation(a, b) == "different"
    rules = PairRules(question="How long did the war of 1939 last, from 1 September on?")
    assert not rules.is_known("It lasted 6 years.", "The war of 1939 lasted from 1 September.")
    assert rules.is_known("It lasted 6 years.", "It lasted from 1939 on for 7 years.")


def test_long_texts_are_left_to_the_model():
    start = "It is a long story of many words. " * 12
    assert not PairRules().is_known(f"{start} It was 1945.", f"{start} It was 1954.")


def test_with_the_rules_off_a_model_says_all():
    assert not PairRules(exact_match=False).is_known("It is 24.", "It is 42.")


@pytest.mark.parametrize("text", ["", "...", "-", "1" * 400, "1." * 200, "½ ² ٣ 三", "'-+#°"])
def test_whatever_is_written_is_read(text):
    assert relation(reading(text), reading("7")) in ("same", "different", None)


FRAMES = ["{}", "It is {}.", "Take {} mg twice a day.", "Room {}, second floor", "Es sind {} Euro."]
DIGITS = st.text("0123456789", min_size=2, max_size=7).filter(lambda text: text[0] != "0")


@given(DIGITS, st.randoms(), st.sampled_from(FRAMES), st.sampled_from(FRAMES))
def test_a_number_and_another_permutation_of_its_digits_are_not_the_same(digits, random, one, two):
    other = "".join(random.sample(digits, len(digits)))
    assume(other != digits and other[0] != "0")
    table = PairTable(("similarity", "entailment", "contradiction"), {}, PairRules())
    a, b = one.format(digits), two.format(other)
    assert table.both_directions(a, b, "similarity") == 0
    assert table.both_directions(a, b, "entailment") == 0
    assert table.both_directions(a, b, "contradiction") == 1


@given(st.integers(2, 10**9), st.sampled_from(FRAMES))
def test_the_form_of_a_number_makes_no_difference(number, frame):
    forms = [frame.format(number), frame.format(f"{number:,}"), frame.format(f"{number}.0")]
    assert {relation(reading(forms[0]), reading(form)) for form in forms} == {"same"}


@given(st.text(max_size=60), st.text(max_size=60))
def test_relations_are_symmetric_and_a_text_is_never_different_from_itself(a, b):
    one, two = reading(a), reading(b)
    assert relation(one, two) == relation(two, one)
    assert relation(one, one) in ("same", None)


def test_words_keep_their_signs_and_numbers_their_units():
    assert read("C++ or C# in 3km") == (
        Item("C++", ("c++",)),
        Item("or", ("or",)),
        Item("C#", ("c#",)),
        Item("in", ("in",)),
        Item("3 km", ("#",), (Number((Fraction(3),), "length", Fraction(1000)),)),
    )

"""Closed lists of words, in several languages."""

from models.similarity.numbers import listed

ARTICLES = listed(
    """
    a an the der die das den dem des ein eine einen einem einer le la les un une el los las una il
    lo gli i o os um uma
    """
)
# Words that say nothing by themselves: in the six languages whose numbers are read, and the most
# frequent ones of seventeen others.
FUNCTION_WORDS = ARTICLES | listed(
    """
    and or of in on at to from by with for as is are was were be been being am has have had do does
    did will would can could may might must shall should it its he she they them his her their this
    that these those there here you we my your our me us who which what when where how so also very
    just about approximately roughly around circa called known named situated located etwa ungefähr
    rund environ unos aproximadamente und oder von vom im auf zu zum zur aus bei mit für als ist
    sind war waren sein wird werden wurde hat haben es er sie ihr ihre dies dieser diese dieses dort
    hier ich du wir mein dein unser wer wann wo wie de et ou à au aux dans sur en par avec pour est
    sont était être ont elle ils elles ce cet cette ces son sa ses qui que quoi où quand comment je
    tu nous unas del y al con por para era fue ser ha han está están ello ella ellos este esta estos
    ese esa su sus quien donde cuando como yo tú uno di da nel nella sul per tra è sono essere hanno
    esso essa questo questa quello suo sua che chi dove quando come io noi dos na nos nas ao com é
    são foi tem têm ele het een op te aan dat zijn wordt werd ook door naar dit det är ett och og
    att på av för från til till med som var jest są był była było w z przez się że oraz jsou byl ve
    это в на с из и был была было были он она они его её который которая которое для по от является
    це є та у з до bu bir ile için olan olarak burası το η ο είναι ήταν του της των στην στο και με
    από في من هو هي على إلى و هذا هذه كان كانت است در از به که را این זה זו הוא היא של את है हैं था
    थी थे का की के में से यह वह और को adalah yang itu ini dari oleh pada se ovat oli ez az van és
    egy sunt și în din là và của đó degree degrees grad degrés
    """
)
# Sets of words of which one denies the others.
_OPPOSITES = """
    more less, over under, above below, before after, least most, true false, correct wrong, north
    south, east west, northern southern, eastern western, left right, increase decrease, increases
    decreases, increased decreased, rises falls, rose fell, up down, better worse, largest smallest,
    highest lowest, longest shortest, oldest youngest, higher lower, heavier lighter, larger
    smaller, bigger smaller, greater smaller, greater less, longer shorter, taller shorter, faster
    slower, earlier later, hotter colder, warmer colder, older younger, won lost, win lose, wins
    loses, hot cold, good bad, open closed, high low, old new, everybody nobody, everything nothing,
    all none, mehr weniger, über unter, vor nach, wahr falsch, norden süden, osten westen, größer
    kleiner, alle niemand, plus moins, avant après, nord sud, est ouest, vrai faux, más menos, antes
    después, norte sur, este oeste, mayor menor, più meno, prima dopo, mais menos, depois antes, yes
    no, ja nein, oui non, sí no, sì no, sim não, да нет, monday tuesday wednesday thursday friday
    saturday sunday, montag dienstag mittwoch donnerstag freitag samstag sonntag, lundi mardi
    mercredi jeudi vendredi samedi dimanche, lunes martes miércoles jueves viernes sábado domingo,
    lunedì martedì mercoledì giovedì venerdì sabato domenica, second minute hour day week month
    quarter year decade century, seconds minutes hours days weeks months quarters years decades
    centuries, spring summer autumn winter, morning afternoon evening night, early late, profit
    loss, gain loss, major minor, positive negative, minimum maximum, min max, men women, man woman,
    male female, boy girl, boys girls, more fewer, first second third fourth fifth sixth seventh
    eighth ninth tenth, first last
"""
OPPOSED = dict[str, set[str]]()
for _words in map(str.split, _OPPOSITES.split(",")):
    for _word in _words:
        OPPOSED.setdefault(_word, set()).update(_words)
PASSIVE = frozenset(("is", "are", "was", "were"))

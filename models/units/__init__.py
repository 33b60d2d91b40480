"""The parts of an answer that can be right or wrong by themselves.

A `unit.Unit` is a stretch of the answer's tokens with what each sample says of it; `unit.cut` gives
its statistics under the names that the estimators read. `prose` finds the units of sentences and
claims, `fields` those of JSON, `reasoning` where the answer begins, `characters` the tokens of a
text. All of it is pure.
"""

"""The parts of an answer that can be right or wrong by themselves.

`parts.split` makes them: each a `unit.Unit`, a stretch of the answer's tokens with what each sample
says of it; `Unit.cut` gives its statistics under the names that the estimators read. `prose` finds
sentences and claims, `fields` those of JSON, `characters` the tokens of a text. All of it is pure.
"""

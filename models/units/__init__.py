"""The parts of an answer that can be right or wrong by themselves; see docs/units.md.

All of it is pure: texts, token texts and numbers in, records and numbers out.
"""

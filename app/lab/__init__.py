"""`cocoa evaluate`: a dataset through generation and scoring.

It writes results, tables, plots and a report of them.
"""

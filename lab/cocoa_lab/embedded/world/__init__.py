"""A language model that writes paragraphs, fills JSON, calls tools and reasons about one world.

`python -m cocoa_lab.embedded.world --help`. This module itself loads neither a model nor torch.
"""

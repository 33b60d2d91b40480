"""A language model that writes paragraphs, fills JSON, calls tools and reasons about one world.

`python -m cocoa_lab.embedded.world --help`. This module itself loads neither a model nor torch.
"""

# Names of the judges that know a world, by its seed.
WORLDS = ("world", "second-world")

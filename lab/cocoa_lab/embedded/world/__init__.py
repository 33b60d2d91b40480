"""The world that the embedded models of long answers write about, and who checks what they say.

This module itself loads neither a model nor torch.
"""

# Names of the judges that know a world, by its seed.
WORLDS = ("world", "second-world")

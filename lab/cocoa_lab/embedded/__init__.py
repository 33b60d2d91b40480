"""Makes the embedded models from code: `python -m cocoa_lab.embedded --help`."""

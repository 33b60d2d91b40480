"""The lab as a plugin of the service: its commands, and what the paper compares with by words."""

from app.plugin import Plugin

_CALIBRATE = "Fit confidence, percentiles and thresholds for every estimator of labelled answers."
_CHECK = "Hold each promise to other answers, and say what so few may show by chance."
_EVALUATE = (
    "Run a dataset through the pipeline and report how well every estimator ranks its answers."
)
_PROBE = "Collect what samples show, train a probe on it, and see how far to trust it."

PLUGIN = Plugin(
    "lab",
    commands={
        "calibrate": ("cocoa_lab.commands.calibrate:calibrate", _CALIBRATE),
        "check": ("cocoa_lab.commands.check:check", _CHECK),
        "evaluate": ("cocoa_lab.commands.evaluate:evaluate", _EVALUATE),
        "probe": ("cocoa_lab.commands.probe:probe", _PROBE),
    },
    similarities={
        "jaccard": "cocoa_lab.lexical:JACCARD",
        "rouge_l": "cocoa_lab.lexical:ROUGE_L",
    },
    estimators={"lexical_similarity": "cocoa_lab.lexical:LEXICAL_SIMILARITY"},
)

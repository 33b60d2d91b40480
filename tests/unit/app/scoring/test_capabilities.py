"""What can be had, and what settings ask for in vain."""

from app.scoring.calibrators import ServedCalibrator
from app.scoring.capabilities import capabilities
from app.scoring.observer import Observer
from tests.made_calibrators import calibrator
from tests.results import a_deployment
from workers.config import WorkerConfig

LIGHT = "predicted_dissimilarity"


def deployment(**info):
    return a_deployment(**info).models


def found(config, models):
    return capabilities(config, models, ServedCalibrator(None, models, Observer()))


def test_what_a_model_does_not_say_has_a_reason():
    can = found(WorkerConfig(), deployment(no_images="", absent={LIGHT: "no plugin"}))
    assert {name for name, one in can.items() if not one.lacks} == {"images"}
    assert can[LIGHT].lacks == "no plugin"
    assert can["nli"].lacks == "there is no NLI model"


def test_a_calibrator_is_unmet_while_another_model_is_served():
    served = ServedCalibrator(calibrator(), deployment(), Observer())
    config = WorkerConfig(calibrator="/a/calibrator.json")

    def lacking(models):
        return capabilities(config, models, served)["calibrator"].lacks

    assert lacking(deployment()) == ""
    assert "its revision was 1, and is 2" in lacking(deployment(revision="2"))
    assert lacking(deployment()) == ""

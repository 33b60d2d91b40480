"""Which calibrator a deployment serves."""

import logging
from pathlib import Path

from app.scoring.judging import check_deployment
from models.calibration import Calibrator
from models.embedded import CALIBRATOR_PATH
from workers.protocol import Workers

logger = logging.getLogger(__name__)


def load_calibrator(setting: str, workers: Workers) -> Calibrator | None:
    """The calibrator that a deployment serves.

    Args:
        setting: a path; "auto" for the embedded one beside the embedded models; "" for none.
        workers: loaded ones.

    Raises:
        OSError: there is no such file.
        ValueError: it is no calibrator, or another deployment's; names what differs.
    """
    if not setting:
        return None
    path = Path(setting)
    if setting == "auto":
        path = CALIBRATOR_PATH
    calibrator = Calibrator.load(path)
    try:
        check_deployment(calibrator, workers)
    except ValueError as error:
        if setting != "auto":
            raise
        logger.info("the embedded calibrator is not served: %s", error)
        return None
    return calibrator

"""Says why the classifier model stays off."""

from __future__ import annotations

import logging

from stoker.app.context import Announce
from stoker_auto.quality.classifier_model import ClassifierModel

log = logging.getLogger("stoker.app")


class ClassifierNotice:
    """Prints each problem that the operator has to solve, once."""

    def __init__(self, model: ClassifierModel, announce: Announce) -> None:
        self._model = model
        self._announce = announce
        self._last = ""

    def update(self) -> None:
        """The configuration may have changed, or a serve was identified."""
        problem = self._model.problem
        if problem and problem != self._last:
            log.warning("%s", problem)
            self._announce(f"warning: {problem}")
        self._last = problem

"""A model that is expected to be wanted next. Routing and the warm pool both predict."""

from __future__ import annotations

from enum import StrEnum


class PredictionReason(StrEnum):
    RULE = "rule"
    """Its task class is asked for."""
    PATTERN = "pattern"
    """It, or the class that wants it, came next before."""
    FREQUENCY = "frequency"


Prediction = tuple[str, PredictionReason]
"""A serve, and why it is expected."""

"""Predictions of the models that requests will need next. Routing and the warm pool both make them."""

from __future__ import annotations

from enum import StrEnum


class PredictionReason(StrEnum):
    """Why a serve is expected to be needed next."""

    RULE = "rule"
    """The router would choose it for a task class that is requested now."""
    PATTERN = "pattern"
    """In the past it, or a class that it serves, was requested next."""
    FREQUENCY = "frequency"
    """It is requested often."""


Prediction = tuple[str, PredictionReason]
"""A serve's name, and why it is expected."""

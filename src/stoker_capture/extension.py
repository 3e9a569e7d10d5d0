"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Extension, Offer

EXTENSION = Extension(
    "Keeps the last requests and answers in memory: [capture].",
    server="stoker_capture.server:build",
    pages="stoker_capture.operations:OPERATIONS",
    warnings="stoker_capture.settings:warnings",
    tables=(Offer("capture", "stoker_capture.settings:CAPTURE"),),
)

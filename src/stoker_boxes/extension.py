"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Extension, Offer

EXTENSION = Extension(
    "Slots of other Stokers: [boxes.NAME]; sleep when idle: [idle_suspend].",
    server="stoker_boxes.server:build",
    drivers=(Offer("box", "stoker_boxes.driver:BoxDriver"),),
    doctor="stoker_boxes.doctor:findings",
    tables=(Offer("boxes", "stoker_boxes.table:BOXES"), Offer("idle_suspend", "stoker_boxes.table:IDLE_SUSPEND")),
)

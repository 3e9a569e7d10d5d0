"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Routes requests for tasks to tiers that proved good enough: [[tier]]; promotions.",
    commands=(
        Command("promote", "stoker_auto.commands.promote:promote", "Move ALIAS to SERVE, and watch whether it holds."),
        Command("route", "stoker_auto.commands.route:route", "Show which tier would answer PROMPT, and why."),
        Command("profile", "stoker_auto.commands.profile:app", "The quality profile: show, diff, import, export."),
        Command("eval classifier", "stoker_auto.commands.classifier:classifier", "Measure a model as a classifier."),
    ),
    server="stoker_auto.server:build",
    pages="stoker_auto.operations:OPERATIONS",
    offers=(
        Offer("classify", "stoker_auto.routing.classifier:classify"),
        Offer("decisions-routes", "stoker_auto.commands.decisions_routes:print_routes"),
    ),
)

"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Measures models: preflight, benchmarks, suites, canaries, gates; the testing kit.",
    commands=(
        Command("eval", "stoker_lab.commands.eval:app", "Measurements of a model: what it does, what it costs."),
        Command("gate", "stoker_lab.commands.gate:gate", "May SERVE be what ALIAS means? Measures what is missing."),
        Command("results", "stoker_lab.commands.results:app", "Results of measurements: list, show, compare."),
        Command("serves experiment", "stoker_lab.commands.serves_experiment:experiment", "Try a variant of a serve."),
    ),
    warnings="stoker_lab.commands.warnings:warnings",
    offers=(
        Offer("comparison", "stoker_lab.comparison.runs:comparison_document"),
        Offer("decisions-trace", "stoker_lab.commands.decisions_trace:print_trace"),
        Offer("measured-now", "stoker_lab.lock:measured_now"),
        Offer("short-preflight", "stoker_lab.commands.short_preflight:short_preflight"),
    ),
)

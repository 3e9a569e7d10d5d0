"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Command, Extension, Offer

EXTENSION = Extension(
    "Prepares this machine and its clients: init, add, doctor, fit, stage, install, client, docs.",
    server="stoker_setup.server:build",
    pages="stoker_setup.operations:OPERATIONS",
    commands=(
        Command("init", "stoker_setup.commands.init:init", "Write a first stoker.toml for this machine."),
        Command("add", "stoker_setup.commands.add:add", "Fetch a model, and add it to stoker.toml."),
        Command("remove", "stoker_setup.commands.remove:remove", "Take a model out of stoker.toml."),
        Command("doctor", "stoker_setup.commands.doctor:doctor", "Check every part of this machine."),
        Command("docs", "stoker_setup.commands.docs:docs", "Show the documentation of this version, offline."),
        Command("fit", "stoker_setup.commands.fit:fit", "Check whether a model fits, and find the largest context."),
        Command("stage", "stoker_setup.commands.stage:stage", "Fetch a model into the vault while requests go on."),
        Command(
            "client", "stoker_setup.commands.client:client", "Print the settings for a client: address, model, tokens."
        ),
        Command("launch", "stoker_setup.commands.launch:launch", "Start a coding agent with one of your models."),
        Command("install", "stoker_setup.commands.install:app", "Install Stoker as a service of this machine."),
    ),
    offers=(
        Offer("fetched-now", "stoker_setup.vault:fetched_now"),
        Offer("self-check", "stoker_setup.commands.self_check:self_check"),
        Offer("serve-problems", "stoker_setup.commands.doctor_checks:serve_problems"),
    ),
)

"""Serves with identity `none`: engines without a list of models start, are adopted and are watched all the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import pytest
from tests.fleet.supervision.test_supervisor_external import external, somebody

from stoker.domain.errors import StartFailed
from stoker.domain.serve import ServeIdentity

Tell = Callable[[Any], None]


def unlisted(workshop: Any, *options: str, **fields: Any) -> Any:
    return workshop.serve("--no-models", *options, identity=ServeIdentity.NONE, **fields)


def test_it_is_ready_without_a_list_of_models_when_its_health_path_answers(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        listed = replace(unlisted(workshop), identity=ServeIdentity.MODELS, ready_timeout=0.5)
        with pytest.raises(StartFailed, match="GET /v1/models answered 404"):
            await fleet.start(listed, workshop.on_exit)
        running = await fleet.start(unlisted(workshop), workshop.on_exit)
        assert running.pid is not None
        await fleet.close(False)

    tell(story)


def test_its_probe_path_counts_where_it_has_no_health_path(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        given = {"health": None, "probe": "/ping"}
        with pytest.raises(StartFailed, match="GET /ping answered 404"):
            await fleet.start(unlisted(workshop, ready_timeout=0.5, **given), workshop.on_exit)
        await fleet.start(unlisted(workshop, "--probe", "/ping", **given), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_without_any_path_it_is_ready_when_its_port_accepts_connections(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        slow = unlisted(workshop, "--delay", "60", health=None, ready_timeout=0.5)
        with pytest.raises(StartFailed, match=r"a connection to port .*: nothing listens"):
            await fleet.start(slow, workshop.on_exit)
        running = await fleet.start(unlisted(workshop, "--health", "500", health=None), workshop.on_exit)
        assert running.facts["ready_s"]
        await fleet.close(False)

    tell(story)


def test_its_end_during_the_start_is_an_error_although_its_port_is_never_asked(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        with pytest.raises(StartFailed, match="exited with code 3"):
            await fleet.start(unlisted(workshop, "--exit", "3", health=None), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_it_is_adopted_by_its_process_and_the_log_says_what_is_not_proved(
    tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        before = await fleet.start(unlisted(workshop), workshop.on_exit)
        await fleet.close(True)
        later = workshop.supervisor()
        with caplog.at_level(logging.INFO, "test.fleet"):
            [running] = await later.adopt([unlisted(workshop)], workshop.on_exit)
        assert running.pid == before.pid
        assert 'adopted; which model answers is not proved (identity = "none")' in caplog.text
        await later.close(False)

    tell(story)


def test_one_that_no_longer_answers_its_probe_is_stopped_instead_of_adopted(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.fleet.supervision.adoption.ADOPT_LIMIT", 0.2)

    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        before = await fleet.start(unlisted(workshop), workshop.on_exit)
        await fleet.close(True)
        psutil.Process(before.pid).suspend()
        later = workshop.supervisor()
        assert await later.adopt([unlisted(workshop)], workshop.on_exit) == []
        assert not psutil.pid_exists(before.pid)
        await later.close(False)

    tell(story)


def test_an_external_one_is_watched_by_its_probe(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.fleet.drivers.external.MAX_POLL_INTERVAL", 0.02)

    async def story(workshop: Any) -> None:
        async with somebody(workshop, "--no-models", "--probe", "/ping") as (url, process):
            fleet = workshop.supervisor()
            serve = external(url, identity=ServeIdentity.NONE, health=None, probe="/ping")
            await fleet.start(serve, workshop.on_exit)
            process.kill()
            await asyncio.wait_for(workshop.exited.wait(), 5)
            assert "stopped answering" in workshop.exits[0][1]
            with pytest.raises(StartFailed):
                await fleet.start(replace(serve, ready_timeout=0.2), workshop.on_exit)
            await fleet.close(False)

    tell(story)

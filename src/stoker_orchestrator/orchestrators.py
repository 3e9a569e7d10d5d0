"""The orchestrators of one configuration: which one a request means, and how it is answered."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from stoker.access.caller import Caller
from stoker.domain.decision import OrchestratedRecord
from stoker.domain.dialect import Endpoint
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.prompt import Prompt
from stoker.domain.routing import AUTO
from stoker.domain.serve import Serve, share_slot, slots_of
from stoker.domain.task import CLASSES
from stoker.domain.usage import ServeUsage
from stoker.exchange.planner import Answer, CandidateHealth, PlannedRequest, Planner, Renamed, Route
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.upstream_errors import recorded_code
from stoker.request.decide.names import Names
from stoker.request.decide.plan import Plan, PlanCandidate
from stoker.request.translate.translate import TRANSLATORS, read_prompt
from stoker.store.files.remedies import remedy
from stoker_content.outline import outline
from stoker_orchestrator import policy as policies
from stoker_orchestrator.checks.checker import LayeredChecker, build_checker
from stoker_orchestrator.checks.names import Asked
from stoker_orchestrator.checks.structure import is_complete
from stoker_orchestrator.checks.validator import Validator, ValidatorSettings
from stoker_orchestrator.loop.loop import Loop, LoopRules
from stoker_orchestrator.memory.project import ProjectFiles
from stoker_orchestrator.memory.recorder import RunFiles
from stoker_orchestrator.memory.scratchpad import RunHead, SavedRun
from stoker_orchestrator.orchestrator import CheckLayer, Orchestrator, Policy
from stoker_orchestrator.policy import ChosenPolicy
from stoker_orchestrator.prompts import VALIDATOR_PROMPT, worker_rules
from stoker_orchestrator.reply_writer import ReplyWriter
from stoker_orchestrator.request import OrchestratorContext
from stoker_orchestrator.runner import OrchestratedRun, RunParts
from stoker_orchestrator.worker import Worker

log = logging.getLogger("stoker.orchestrator")
REPLY_HEADER = b"x-stoker-orchestrator"
POLICY_HEADER = b"x-stoker-policy"
RESUME_HEADER = b"x-stoker-resume"
"""The request header that names a request whose blocks are to be kept."""
IDEMPOTENCY_HEADER = b"idempotency-key"
FILES_HEADER = b"x-stoker-read-files"
"""`PATH=SHA256,...`: the files that the client read before it asked. Paths are percent-encoded."""
PROJECT_HEADER = b"x-stoker-project"
"""A directory, percent-encoded, instead of the orchestrator's project. Only over the control socket."""


class ChosenServes(NamedTuple):
    """Who works on a request."""

    workers: Plan
    """The first one writes; the others take over if it fails. At least one."""
    validator: Serve | None = None


class Orchestrators(Planner):
    """Of one configuration: a reload makes another one. Requests under way keep the one that they began with."""

    def __init__(self, orchestrators: Iterable[Orchestrator], context: OrchestratorContext) -> None:
        self._by_name = {orchestrator.name: orchestrator for orchestrator in orchestrators}
        self._context = context
        self.names = tuple(self._by_name)

    def describe(self, model: str, caller: Caller) -> dict[str, Any] | None:
        one = self._by_name.get(model)
        if one is None or not caller.may_use_name(model):
            return None
        return {"state": "orchestrated", "worker": one.worker, "validator": one.validator or None}

    def listed(self, caller: Caller, aliases: bool) -> list[str]:
        return [name for name in self._by_name if caller.may_use_name(name)]

    def configured(self) -> list[dict[str, str]]:
        """All of them, for /status."""
        return [
            {"name": one.name, "worker": one.worker, "validator": one.validator, "policy": one.policy.value,
             "project": one.project}
            for one in self._by_name.values()
        ]  # fmt: skip

    def clean(self) -> None:
        """Remove the scratchpads that are older than their orchestrator's `keep`: in a thread, at most once an hour."""
        self._context.pads.clean_in_thread({name: one.keep for name, one in self._by_name.items()})

    async def plan(self, request: PlannedRequest) -> Answer | Renamed | None:
        """Block by block; or, if the policy is `simple`, the worker answers as it answers any request. `auto`, where no
        tier may write: who answers to that name says why. Raises StokerError.
        """
        call, endpoint, fields, body, names = (
            request.call, request.endpoint, request.fields, request.body, request.names
        )  # fmt: skip
        orchestrator = self._by_name.get(request.model)
        if orchestrator is None or not (request.is_renamed or request.caller.may_use_name(request.model)):
            return None
        reply = call.reply
        orchestrator = _with_project(orchestrator, call)
        reply.set_header(REPLY_HEADER, orchestrator.name.encode())
        if endpoint.dialect not in TRANSLATORS or not endpoint.generates:
            return self._leave_to_worker(call, orchestrator, ChosenPolicy(Policy.SIMPLE, "endpoint"))
        if fields.may_have_server_tools:  # a worker that writes blocks calls none
            return self._leave_to_worker(call, orchestrator, ChosenPolicy(Policy.SIMPLE, "tools"))
        prompt, _ = await call.process(read_prompt, endpoint.dialect, body)
        prompt.stream = bool(fields.stream) and endpoint.streams
        header = call.exchange.headers.get(POLICY_HEADER)
        chosen = policies.choose(orchestrator.policy, prompt, None if header is None else header.decode("latin-1"))
        if chosen.policy is Policy.SIMPLE:
            return self._leave_to_worker(call, orchestrator, chosen)
        route, router = request.route, request.planners.get(AUTO)
        if route is None and router is not None:
            route = await router.route(request)
        if route is None and orchestrator.worker == AUTO:
            return Renamed(AUTO)
        task = route.task if route is not None else await self._class_of(call, endpoint, body)
        workers = self._workers(orchestrator, names, route)
        if chosen.needs_class:
            chosen = policies.by_class(task)
        if chosen.policy is Policy.SIMPLE:
            return self._leave_to_worker(call, orchestrator, chosen)
        if not workers:
            return Renamed(AUTO)
        reply.set_header(POLICY_HEADER, chosen.policy.value.encode())
        serves = self._together(workers, self._validator(orchestrator, names))
        head = self._head(orchestrator, call, workers[0].serve, task, hashlib.sha256(body).hexdigest())
        memory, earlier = await call.run_cancellable(
            asyncio.to_thread(self._open_memory, orchestrator, head, call.exchange.headers)
        )
        call.raise_if_ended()
        worker = self._writer(call, serves, None if route is None else route.health)
        run = self._run(orchestrator, call, prompt, task, serves, worker, memory, earlier)
        call.decision.orchestrated = record = OrchestratedRecord(orchestrator.name, chosen.policy.value, chosen.why)
        record.validator = "" if serves.validator is None else serves.validator.name
        return Answer(partial(self._follow, run, call, worker, record))

    # -- what is asked of whom -----------------------------------------------------------------------------------------

    def _leave_to_worker(self, context: RequestContext, orchestrator: Orchestrator, chosen: ChosenPolicy) -> Renamed:
        context.reply.set_header(POLICY_HEADER, f"{chosen.policy.value}; {chosen.why}".encode())
        context.decision.orchestrated = OrchestratedRecord(orchestrator.name, chosen.policy.value, chosen.why)
        return Renamed(orchestrator.worker)

    async def _class_of(self, context: RequestContext, endpoint: Endpoint, body: bytes) -> str:
        """The class of a request where nothing is routed."""
        seen, declared = await context.process(outline, endpoint.dialect, body)
        return self._context.classify(seen, declared, CLASSES).name

    def _workers(self, orchestrator: Orchestrator, names: Names, route: Route | None) -> Plan:
        """The serves that may write, in order; none: no tier may. With `auto`, those of the planned tiers."""
        if orchestrator.worker != AUTO:
            return (PlanCandidate(names.resolve(orchestrator.worker, lambda serve: True)),)
        return () if route is None else route.candidates

    def _together(self, workers: Plan, validator: Serve | None) -> ChosenServes:
        """Without those that would have to swap with the validator, unless the first one has to as well: a request has
        one way of working.
        """
        first = self._must_swap(workers[0].serve, validator)
        fit = (one for one in workers if first or not self._must_swap(one.serve, validator))
        return ChosenServes(tuple(fit), validator)

    def _writer(self, call: RequestContext, serves: ChosenServes, health: CandidateHealth | None) -> Worker:
        context = self._context
        return Worker(context.leases, context.client, serves.workers, context.now, health, call.usages.append)

    def _validator(self, orchestrator: Orchestrator, names: Names) -> Serve | None:
        """The serve that judges; None: none does. A tier's name means its serve. Raises ClientError 404."""
        name, context = orchestrator.validator, self._context
        if not name:
            return None
        serve = context.tiers.get(name, name)
        return context.serves.get(serve) or names.resolve(serve, lambda serve: True)

    def _head(
        self, orchestrator: Orchestrator, context: RequestContext, serve: Serve, task: str, prompt_hash: str
    ) -> RunHead:
        decision = context.decision
        return RunHead(
            request=decision.id,
            orchestrator=orchestrator.name,
            worker=serve.name,
            validator=orchestrator.validator,
            policy=Policy.BLOCK_BY_BLOCK.value,
            task=task,
            at=self._context.wall(),
            prompt_hash=prompt_hash,
            idempotency=_idempotency(decision.key, context.exchange.headers.get(IDEMPOTENCY_HEADER)),
            key=decision.key,
        )

    def _open_memory(
        self, orchestrator: Orchestrator, head: RunHead, headers: Mapping[bytes, bytes]
    ) -> tuple[RunFiles, SavedRun | None]:
        """The scratchpad and the project, with the blocks that an earlier request has committed; and that request, if
        there is one. Blocks. Raises StokerError.
        """
        self.clean()
        earlier = self._earlier(head, headers.get(RESUME_HEADER))
        try:
            pad = self._context.pads.begin(
                msgspec.structs.replace(head, resumes=earlier.head.request if earlier else "")
            )
        except OSError as error:
            text = f"the scratchpad cannot be written ({error.strerror}): {remedy(error, self._context.pads.directory)}"
            raise StokerError(text, code="state_unusable", status=503) from error
        project = None
        if orchestrator.project:
            project = ProjectFiles(Path(orchestrator.project), head.request, _read_files(headers.get(FILES_HEADER)))
        memory = RunFiles(pad, project)
        memory.restore(earlier.committed if earlier else ())
        return memory, earlier

    def _run(
        self,
        orchestrator: Orchestrator,
        call: RequestContext,
        prompt: Prompt,
        task: str,
        serves: ChosenServes,
        worker: Worker,
        memory: RunFiles,
        earlier: SavedRun | None,
    ) -> OrchestratedRun:
        context = self._context
        committed, is_whole = (earlier.committed, earlier.outcome == "finished") if earlier else ((), False)
        writer = context.formatter.answer_writer(prompt, call.decision.id, orchestrator.name)
        asked = Asked(
            policies.task_text(prompt), policies.conversation(prompt), policies.asks_for_new_code(task, prompt)
        )
        checker = self._checker(orchestrator, call, asked, serves.validator)
        rules = self._rules(orchestrator, prompt, checker.layers, serves)
        parts = RunParts(
            Loop(rules, is_complete, committed, is_whole),
            worker,
            checker,
            memory,
            ReplyWriter(call.reply, writer, orchestrator.name, prompt.stream, context.keep_alive),
            context.now,
        )
        parts.reply.name_worker(worker.serve.name)
        return OrchestratedRun(parts, prompt, worker_rules(orchestrator))

    def _earlier(self, head: RunHead, resume: bytes | None) -> SavedRun | None:
        """The request that this one goes on after: named, or with the same idempotency key. Raises ClientError."""
        pads = self._context.pads
        named = None if resume is None else resume.decode("latin-1")
        request = named if named is not None else pads.find(head.idempotency) if head.idempotency else None
        if request is None:
            return None
        try:
            saved = pads.read(request)
        except (OSError, ValueError):
            if named is None:
                return None
            text = f"request {named[:64]!r} cannot be resumed: it has no scratchpad here; `stoker orchestrator list`"
            raise ClientError(text, code="unknown_request", status=404, param="x-stoker-resume") from None
        problem = ""
        if saved.head.key != head.key or saved.head.orchestrator != head.orchestrator:
            problem = "it was made with another key or orchestrator"
        elif saved.head.prompt_hash != head.prompt_hash:
            problem = "its body was another one; send the same body again"
        if problem:
            text = f"request {request!r} cannot be resumed: {problem}"
            raise ClientError(text, code="not_resumable", status=409)
        return saved

    def _rules(
        self, orchestrator: Orchestrator, prompt: Prompt, layers: tuple[CheckLayer, ...], serves: ChosenServes
    ) -> LoopRules:
        return LoopRules(
            layers=layers,
            retries=orchestrator.retries,
            overlap=orchestrator.overlap,
            batch=self._must_swap(serves.workers[0].serve, serves.validator),
            block_timeout=orchestrator.block_timeout,
            judges_end=CheckLayer.NAMES in layers,
            is_bounded=prompt.max_tokens is not None,
        )

    def _must_swap(self, worker: Serve, validator: Serve | None) -> bool:
        """Whether worker and validator can never be loaded together."""
        if validator is None or worker.name == validator.name or not share_slot(worker.slot, validator.slot):
            return False
        shared = set(slots_of(str(worker.slot))) & set(slots_of(str(validator.slot)))
        slots = [self._context.slots.get(name) for name in shared]
        return any(slot is None or not slot.can_hold({worker.name, validator.name}) for slot in slots)

    def _checker(
        self, orchestrator: Orchestrator, context: RequestContext, asked: Asked, serve: Serve | None
    ) -> LayeredChecker:
        validator = None
        if serve is not None:
            rules = orchestrator.validator_prompt or VALIDATOR_PROMPT
            settings = ValidatorSettings(serve, rules, asked.task, orchestrator.validator_timeout)
            validator = Validator(self._context.leases, self._context.client, settings, context.usages.append)
        return build_checker(orchestrator, asked, validator)

    # -- the run -------------------------------------------------------------------------------------------------------

    async def _follow(
        self, run: OrchestratedRun, context: RequestContext, worker: Worker, record: OrchestratedRecord
    ) -> None:
        decision = context.decision
        decision.serve, outcome = worker.serve.name, "left"
        try:
            await context.run_cancellable(run.run())
            outcome = "served"
        except StokerError as error:
            outcome = recorded_code(error)
            error.message = f"{error.message}. The blocks so far: `stoker orchestrator show {decision.id}`"
            error.details = run.failure_details(error)
            raise
        finally:
            run.report(record)
            decision.candidates, decision.serve = worker.candidates, worker.serve.name
            if worker.tried:
                worker.end(outcome)
                decision.tried = worker.tried
            usage = run.usage
            decision.attempts += usage.generations
            decision.input_tokens, decision.output_tokens = usage.input, usage.output
            decision.cached_tokens, decision.cache_write_tokens = usage.cached or None, usage.cache_written or None
            decision.tokens_estimated = usage.is_estimated
            total = ServeUsage(worker.serve.name, usage.input, usage.output, usage.cached)
            total.cache_written, total.is_estimated = usage.cache_written or None, usage.is_estimated
            context.usages.append(total)
            if usage.validator:
                asked = usage.validator - usage.validator_output
                context.usages.append(ServeUsage(record.validator, asked, usage.validator_output))


def _idempotency(key: str, given: bytes | None) -> str:
    return "" if not given else hashlib.sha256(key.encode() + b"\0" + given).hexdigest()


def _read_files(given: bytes | None) -> dict[str, str]:
    pairs = (part.strip().rpartition("=") for part in (given or b"").decode("latin-1").split(",") if part.strip())
    return {unquote(path): digest.lower() for path, _, digest in pairs if path}


def _with_project(orchestrator: Orchestrator, context: RequestContext) -> Orchestrator:
    """With the project that the request names, if it names one. Raises ClientError: a client that comes over the
    network may not choose where files are written.
    """
    given = context.exchange.headers.get(PROJECT_HEADER)
    if given is None:
        return orchestrator
    name = PROJECT_HEADER.decode()
    if not context.exchange.is_local:
        text = f"{name} is accepted over the control socket only: use `stoker run --project DIR` on that machine"
        raise ClientError(text, code="project_refused", status=403, param=name)
    directory = Path(unquote(given.decode("latin-1")))
    if not directory.is_absolute() or not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
        text = (
            f"the project {str(directory)[:200]!r} is not a directory that Stoker may write: create it, check its owner"
        )
        raise ClientError(text, code="project_unusable", param=name)
    return msgspec.structs.replace(orchestrator, project=str(directory))

"""What finds out how good tiers are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from stoker.app.classifier_notice import ClassifierNotice
from stoker.app.context import BuildContext
from stoker.app.fleet_parts import FleetParts
from stoker.app.store_parts import StoreParts
from stoker.domain.events import ServeIdentified
from stoker.domain.serve import Serve, replicas_of
from stoker.domain.usage import ServeUsage
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.fleet.process.identity import KeySigner, fingerprint
from stoker.quality.classifier_model import ClassifierModel
from stoker.quality.demotion import Demoter, Reports
from stoker.quality.fingerprints import FingerprintStore
from stoker.quality.judge import Judge
from stoker.quality.monitor import QualityMonitor
from stoker.quality.shadow import ShadowGrader
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.routing.tier_quality import TierQuality


@dataclass(frozen=True, slots=True)
class QualityParts:
    """What is known of tiers, and whatever adds to it."""

    tier_quality: TierQuality
    monitor: QualityMonitor
    grader: ShadowGrader
    classifier_model: ClassifierModel
    notice: ClassifierNotice


def build_quality(
    context: BuildContext,
    store: StoreParts,
    fleet: FleetParts,
    pool: ConnectionPool,
    on_usage: Callable[[ServeUsage], None],
) -> QualityParts:
    """`on_usage` gets what Stoker's own questions used."""
    clock, directory, leases = context.clock, context.directory, fleet.conductor
    tier_quality, counts, note = TierQuality(), store.metrics.routed, store.events.note

    def launch(serve: Serve) -> str:
        """How it, or each of its replicas, is started, and what its requests are made to say: a reload changes that
        without a start. Which slots it has is nothing of the model's.
        """
        one = replicas_of(serve)[0]
        alike = one if one is serve else replace(one, name=serve.name, slot=None)
        started = fingerprint(alike, KeySigner(context.state.signing_key))
        return f"{started} {json.dumps(asdict(serve.request), sort_keys=True)}" if serve.request else started

    def on_identified(serve: str) -> None:
        context.notify(ServeIdentified(serve))

    demoter = Demoter(tier_quality, directory, leases.target, clock, Reports(note, counts.observe_demotion))
    fingerprints = FingerprintStore(directory, launch)
    monitor = QualityMonitor(tier_quality, demoter, fingerprints, leases.target, note, on_identified)
    client = InternalClient(pool, Formatter(ThinkingSigner((context.state.signing_key(),)), clock.wall))
    model = ClassifierModel(directory, leases, client, counts.classifier, clock.now, on_usage)
    judge = Judge(leases, client, clock.now, on_usage)
    grader = ShadowGrader(tier_quality, directory, judge, counts, clock.wall, note=note)
    return QualityParts(tier_quality, monitor, grader, model, ClassifierNotice(model, context.options.announce))

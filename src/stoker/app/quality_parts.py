"""What finds out how good tiers are."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.app.classifier_notice import ClassifierNotice
from stoker.app.context import BuildContext
from stoker.app.fleet_parts import FleetParts
from stoker.app.store_parts import StoreParts
from stoker.domain.events import ServeIdentified
from stoker.domain.serve import Serve
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.fleet.process.launch_fingerprint import fingerprint
from stoker.fleet.process.signing import KeySigner
from stoker.quality.classifier_model import ClassifierModel
from stoker.quality.collector import EvidenceCollector
from stoker.quality.demotion import Demoter, Reports
from stoker.quality.fingerprints import FingerprintStore
from stoker.quality.judge import Judge
from stoker.quality.shadow import ShadowGrader
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.routing.evidence import Evidence


@dataclass(frozen=True, slots=True)
class QualityParts:
    """What is known of tiers, and whatever adds to it."""

    evidence: Evidence
    collector: EvidenceCollector
    grader: ShadowGrader
    classifier_model: ClassifierModel
    notice: ClassifierNotice


def build_quality(context: BuildContext, store: StoreParts, fleet: FleetParts, pool: ConnectionPool) -> QualityParts:
    clock, directory, leases = context.clock, context.directory, fleet.conductor
    evidence, counts, note = Evidence(), store.metrics.routed, store.events.note

    def launch(serve: Serve) -> str:
        return fingerprint(serve, KeySigner(context.state.signing_key))

    def on_identified(serve: str) -> None:
        context.notify(ServeIdentified(serve))

    demoter = Demoter(evidence, directory, leases.target, clock, Reports(note, counts.demoted_one))
    fingerprints = FingerprintStore(directory, launch)
    collector = EvidenceCollector(evidence, demoter, fingerprints, leases.target, note, on_identified)
    client = InternalClient(pool, Formatter(ThinkingSigner((context.state.signing_key(),)), clock.wall))
    model = ClassifierModel(directory, leases, client, counts.classifier, clock.now)
    grader = ShadowGrader(evidence, directory, Judge(leases, client, clock.now), counts, clock.wall)
    return QualityParts(evidence, collector, grader, model, ClassifierNotice(model, context.options.announce))

"""A place counts as used until nothing of its job is left, whatever happens to job, engine, node and head.

The world below knows what really runs; the driver's pure part only sees what is observed.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import booleans, floats
from tests.examples import examples

from stoker_ray.job_watch import APPEARS_WITHIN, JobObservation, JobWatch, Reach, is_gone
from stoker_ray.jobs_api import Job, JobStatus


class JobStories(RuleBasedStateMachine):
    """One job from its submit on. It is observed after each event, as the driver does: with the watch first, and once
    that says that the job has ended, or it is told to end, with `is_gone`.
    """

    @initialize(arrives_late=booleans())
    def submit(self, arrives_late: bool) -> None:
        self.now = 0.0
        self.is_in_flight = True
        self.status: JobStatus | None = None
        self.exit_code: int | None = None
        self.engine_runs = self.engine_listens = False
        self.node_lives = self.node_is_known_to_live = True
        self.head_answers = True
        self.is_told_to_end = self.was_seen = self.is_free = False
        self.watch = JobWatch("job", "node", 0.0)
        if not arrives_late:
            self.arrive()

    # -- the world -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_in_flight and self.now < APPEARS_WITHIN)
    @rule()
    def arrive(self) -> None:
        self.is_in_flight = False
        self.status = JobStatus.PENDING if self.node_is_known_to_live else JobStatus.FAILED

    @precondition(lambda self: self.status is JobStatus.PENDING and self.node_lives)
    @rule()
    def run(self) -> None:
        self.status, self.engine_runs = JobStatus.RUNNING, True

    @precondition(lambda self: self.engine_runs)
    @rule()
    def listen(self) -> None:
        self.engine_listens = True

    @precondition(lambda self: self.engine_runs and self.status is JobStatus.RUNNING)
    @rule()
    def exit(self) -> None:
        self.engine_runs = self.engine_listens = False
        self.status, self.exit_code = JobStatus.FAILED, 3

    @precondition(lambda self: self.engine_listens and self.status is JobStatus.RUNNING)
    @rule()
    def supervisor_dies_before_its_engine(self) -> None:
        self.status = JobStatus.FAILED

    @precondition(lambda self: self.engine_runs and self.status is JobStatus.FAILED)
    @rule()
    def engine_follows(self) -> None:
        self.engine_runs = self.engine_listens = False

    @precondition(lambda self: self.node_lives)
    @rule()
    def node_is_cut_off(self) -> None:
        """Nobody reaches it any more, and its engine runs on until Ray gives it up: then the node ends it."""
        self.node_lives = False

    @precondition(lambda self: not self.node_lives and self.node_is_known_to_live)
    @rule()
    def ray_knows_that_the_node_is_dead(self) -> None:
        self.node_is_known_to_live = self.engine_runs = self.engine_listens = False
        self.status = JobStatus.FAILED if self.status is not None else None

    @rule()
    def head_goes_or_comes(self) -> None:
        self.head_answers = not self.head_answers

    @precondition(lambda self: self.is_told_to_end and self.head_answers and self.status is JobStatus.RUNNING)
    @rule()
    def stop_is_carried_out(self) -> None:
        if self.node_lives:
            self.engine_runs = self.engine_listens = False
            self.status = JobStatus.STOPPED

    # -- the driver ------------------------------------------------------------------------------------------------

    @rule()
    def tell_to_end(self) -> None:
        self.is_told_to_end = True

    @rule(seconds=floats(0.1, 30.0))
    def observe_later(self, seconds: float) -> None:
        self.now += seconds
        self.observe()

    @rule()
    def observe(self) -> None:
        answers = self.engine_listens and self.node_lives
        reach = Reach.ACCEPTS if answers else Reach.REFUSES if self.node_lives else Reach.SILENT
        job = Job("job", self.status, "node", self.exit_code) if self.status is not None else None
        observation = JobObservation(self.head_answers, job if self.head_answers else None, reach)
        self.was_seen = self.was_seen or observation.job is not None
        if self.is_told_to_end:
            is_dead = self.head_answers and not self.node_is_known_to_live
            self.is_free = self.is_free or is_gone(observation, is_dead, self.now, self.was_seen)
        elif self.watch.on_observed(observation, self.now) is not None:
            self.is_told_to_end = True  # whatever the watch concludes, only `is_gone` gives the place back

    @invariant()
    def a_free_place_has_nothing_in_it_and_nothing_can_appear_there(self) -> None:
        if getattr(self, "is_free", False):
            assert not self.engine_runs
            assert self.status is None or self.status.is_over
            assert not self.is_in_flight or self.now >= APPEARS_WITHIN or not self.node_is_known_to_live


TestJobStories = JobStories.TestCase
TestJobStories.settings = settings(max_examples=examples(200), stateful_step_count=25, deadline=None)

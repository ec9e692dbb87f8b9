"""When the exchange of a bucket may start while the backward pass is still running."""

from __future__ import annotations

import warnings
import weakref
from typing import Callable

from torch import Tensor

from . import _core
from .arena import Arena
from .shards import local_of

# An optimizer cannot know that a gradient is final: another micro-batch may follow, a GradScaler or clipping may change
# it, and so may the learning rate. So steps are watched: after this many in a row that changed nothing after backward,
# the next ones are taken to be like them. One that is not like them after all is exchanged again where the method
# defers its update; otherwise it is finished as it was exchanged, with a warning, and overlap ends.
_ALIKE = 3


class Overlap:
    """Decides whether gradients are final as they come, and starts the buckets that the tracker finds complete."""

    def __init__(
        self,
        arena: Arena,
        buckets: list[tuple[int, int]],
        defers: bool,
        start: Callable[[int], None],
        rates: Callable[[], list],
        abandon: Callable[[], Exception | None],
    ) -> None:
        self.arena, self.defers, self._start, self._rates_now, self._abandon = arena, defers, start, rates, abandon
        self.wanted = True
        ranges = [arena.range(i) for i in range(len(arena.parameters))]
        self._tracker = _core.BucketTracker([(begin, end - begin) for begin, end in ranges], buckets)
        self._expected = [0] * len(arena.parameters)
        self._alike = 0
        self.hooks: list = []
        self.new_step()

    def new_step(self) -> None:
        self._seen: list[tuple[Tensor, int] | None] = [None] * len(self.arena.parameters)
        # A parameter that had no gradient in the steps before holds a bucket back only where weights move at once: the
        # backward pass may still read it.
        self._tracker.begin(self._expected, waits_for_all=not self.defers)
        self._late: set[int] = set()  # those that got a gradient after their release
        self._rates: list | None = None

    def watch(self) -> None:
        """Hooks on the parameters that do not keep the optimizer alive."""
        here = weakref.ref(self)
        for i, parameter in enumerate(self.arena.parameters):

            def came(_, i=i) -> None:
                overlap = here()
                if overlap is not None:
                    overlap.gradient_came(i)

            self.hooks.append(parameter.register_post_accumulate_grad_hook(came))

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()

    def gradient_came(self, i: int) -> None:
        if self._tracker.released(i):
            if not self._dropped(i):
                return self._came_late(i)
            late = self._abandon()  # by model.zero_grad(), say
            if late is not None:
                raise late
        if self._rates is None:
            self._rates = self._rates_now()
        self.arena.collect(i)
        self.note(i)
        if self._tracker.arrived(i) and self.active:
            for bucket in self._tracker.release(i):
                self._start(bucket)

    def _dropped(self, i: int) -> bool:
        """Whether the gradient that just came was not added to the one before, which was set to None or zeroed."""
        gradient, before = self.arena.parameters[i].grad, self._seen[i]
        return before is not None and (gradient is not before[0] or local_of(gradient)._version != before[1] + 1)

    def _came_late(self, i: int) -> None:
        self.end(f"{self.arena.names[i]} got a further gradient: this step has more backward passes")
        self.arena.collect(i)
        self.note(i)
        self._tracker.arrived(i)
        self._late.add(i)

    def end(self, reason: str) -> None:
        """The exchange of this step began with gradients or rates that were not final."""
        if self.defers or not self.wanted:
            return
        self.wanted = False
        warnings.warn(
            f"laconic: {reason} than when the exchange began during backward. This step uses what was exchanged; from "
            "the next step on exchanges begin in step() (optimizer.overlap = True turns overlap on again)",
            RuntimeWarning,
            stacklevel=2,
        )

    def note(self, i: int) -> None:
        """The gradient of this parameter is taken to be final as it is now."""
        gradient = self.arena.parameters[i].grad
        self._seen[i] = None if gradient is None else (gradient, local_of(gradient)._version)

    def disturbed(self) -> None:
        """The gradients of this step were not final when backward ended."""
        self._alike = 0

    def note_again(self) -> None:
        for i, seen in enumerate(self._seen):
            if seen is not None:
                self.note(i)

    @property
    def active(self) -> bool:
        return self.wanted and self._alike >= _ALIKE

    def untouched(self, i: int) -> bool:
        seen, gradient = self._seen[i], self.arena.parameters[i].grad
        return seen is not None and gradient is seen[0] and local_of(gradient)._version == seen[1]

    def finish(self, rates: list) -> bool:
        """At step(): collects every gradient. True: one was changed after its exchange had begun."""
        changed = [i for i, seen in enumerate(self._seen) if seen is not None and not self.untouched(i)]
        late = [*self._late, *(i for i in changed if self._tracker.released(i))]
        same_rates = self._rates is None or self._rates == rates
        if late:
            self.end(f"the gradient of {self.arena.names[late[0]]} is another one at step()")
        if self._tracker.started and not same_rates:
            self.end(f"the learning rates are others at step(), {rates} and not {self._rates}")
        for i in range(len(self._seen)):
            if not self.untouched(i) and (self.defers or not self._tracker.released(i)):
                self.arena.collect(i)
        came = self._tracker.arrivals
        alike = any(came) and not changed and same_rates and came == self._expected
        self._alike = self._alike + 1 if alike else 0
        if any(came):
            self._expected = came
        return bool(late)

    def absent(self, bucket: int | None = None) -> list[int]:
        """The parameters (of a bucket) without a gradient."""
        parameters = self.arena.parameters
        inside = range(len(parameters)) if bucket is None else self._tracker.inside(bucket)
        return [i for i in inside if parameters[i].grad is None]

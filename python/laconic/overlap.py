"""When the exchange of a bucket may start while the backward pass is still running."""

from __future__ import annotations

import warnings
import weakref
from typing import Callable

from torch import Tensor

from .arena import Arena

# An optimizer cannot know that a gradient is final: another micro-batch may follow, a GradScaler or clipping may change
# it, and so may the learning rate. So steps are watched: after this many in a row that changed nothing after backward,
# the next ones are taken to be like them. One that is not like them after all is exchanged again where the method
# defers its update; otherwise it is finished as it was exchanged, with a warning, and overlap ends.
_ALIKE = 3


class Overlap:
    """Counts gradients as they come, and starts buckets whose gradients are final."""

    def __init__(
        self,
        arena: Arena,
        buckets: list[tuple[int, int]],
        defers: bool,
        start: Callable[[int], None],
        rates: Callable[[], list],
        abandon: Callable[[], None],
    ) -> None:
        self.arena, self.defers, self._start, self._rates_now, self._abandon = arena, defers, start, rates, abandon
        self.wanted = True
        self._inside: list[list[int]] = []  # the parameters of each bucket
        self._buckets_of: list[list[int]] = [[] for _ in arena.parameters]
        for number, (begin, count) in enumerate(buckets):
            self._inside.append([i for i in range(len(arena.parameters)) if self._meets(i, begin, begin + count)])
            for i in self._inside[-1]:
                self._buckets_of[i].append(number)
        self._expected = [0] * len(arena.parameters)
        self._alike = 0
        self.hooks: list = []
        self.new_step()

    def _meets(self, i: int, begin: int, end: int) -> bool:
        first, last = self.arena.range(i)
        return first < end and begin < last

    def new_step(self) -> None:
        count = len(self.arena.parameters)
        self._came = [0] * count
        self._seen: list[tuple[Tensor, int] | None] = [None] * count
        # A parameter that had no gradient in the steps before holds a bucket back only where weights move at once: the
        # backward pass may still read it.
        self._left = [
            sum(self._expected[i] > 0 for i in inside) if self.defers else len(inside) for inside in self._inside
        ]
        self._released = [False] * count
        self._late: set[int] = set()  # those that got a gradient after their release
        self._rates: list | None = None
        self.started = False

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
        if self._released[i]:
            if not self._dropped(i):
                return self._came_late(i)
            self._abandon()  # by model.zero_grad(), say
        if self._rates is None:
            self._rates = self._rates_now()
        self.arena.collect(i)
        self.note(i)
        self._came[i] += 1
        if self.active and self._came[i] == self._expected[i]:
            self.release(i)

    def _dropped(self, i: int) -> bool:
        """Whether the gradient that just came was not added to the one before, which was set to None or zeroed."""
        gradient, before = self.arena.parameters[i].grad, self._seen[i]
        return before is not None and (gradient is not before[0] or gradient._version != before[1] + 1)

    def _came_late(self, i: int) -> None:
        self.end(f"{self.arena.names[i]} got a further gradient: this step has more backward passes")
        self.arena.collect(i)
        self.note(i)
        self._came[i] += 1
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
        self._seen[i] = None if gradient is None else (gradient, gradient._version)

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

    def release(self, i: int) -> None:
        self._released[i] = True
        complete = [] if self.started else [b for b, left in enumerate(self._left) if left == 0]
        for bucket in self._buckets_of[i]:
            self._left[bucket] -= 1
            if self._left[bucket] == 0:
                complete.append(bucket)
        for bucket in complete:
            self.started = True
            for other in self._inside[bucket]:
                self._released[other] = True  # those without a gradient, too
            self._start(bucket)

    def untouched(self, i: int) -> bool:
        seen, gradient = self._seen[i], self.arena.parameters[i].grad
        return seen is not None and gradient is seen[0] and gradient._version == seen[1]

    def finish(self, rates: list) -> bool:
        """At step(): collects every gradient. True: one was changed after its exchange had begun."""
        changed = [i for i, seen in enumerate(self._seen) if seen is not None and not self.untouched(i)]
        late = [*self._late, *(i for i in changed if self._released[i])]
        same_rates = self._rates is None or self._rates == rates
        if late:
            self.end(f"the gradient of {self.arena.names[late[0]]} is another one at step()")
        if self.started and not same_rates:
            self.end(f"the learning rates are others at step(), {rates} and not {self._rates}")
        for i in range(len(self._came)):
            if not self.untouched(i) and (self.defers or not self._released[i]):
                self.arena.collect(i)
        alike = bool(any(self._came)) and not changed and same_rates and self._came == self._expected
        self._alike = self._alike + 1 if alike else 0
        if any(self._came):
            self._expected = list(self._came)
        return bool(late)

    def absent(self, bucket: int | None = None) -> list[int]:
        """The parameters (of a bucket) without a gradient."""
        parameters = self.arena.parameters
        inside = range(len(parameters)) if bucket is None else self._inside[bucket]
        return [i for i in inside if parameters[i].grad is None]

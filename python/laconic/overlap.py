"""When the exchange of a bucket may start while the backward pass is still running."""

from __future__ import annotations

import weakref
from typing import Callable

from torch import Tensor

from .arena import Arena
from .errors import InvalidArgument

# Nobody tells an optimizer that a gradient is final: another micro-batch may follow, a GradScaler or clipping may
# change it, and so may the learning rate. So steps are watched: after this many in a row that changed nothing after
# backward, the next ones are taken to be like them. One that is not like them after all is an error, never a wrong step.
_ALIKE = 3


class Overlap:
    """Counts gradients as they come, and starts buckets whose gradients are final."""

    def __init__(
        self, arena: Arena, buckets: list[tuple[int, int]], start: Callable[[int], None], rates: Callable[[], list]
    ) -> None:
        self.arena, self._start, self._rates_now = arena, start, rates
        self.wanted = True
        self._of_bucket: list[int] = []
        self._buckets_of: list[list[int]] = [[] for _ in arena.parameters]
        for number, (begin, count) in enumerate(buckets):
            inside = [i for i in range(len(arena.parameters)) if self._meets(i, begin, begin + count)]
            self._of_bucket.append(len(inside))
            for i in inside:
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
        self._left = list(self._of_bucket)
        self._released = [False] * count
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
            raise InvalidArgument(
                f"another gradient came for {self.arena.names[i]} after its exchange had started: this step has more "
                "backward passes than the steps before; set optimizer.overlap = False, or keep their number"
            )
        if self._rates is None:
            self._rates = self._rates_now()
        self.arena.collect(i)
        self.note(i)
        self._came[i] += 1
        if self.active and self._came[i] == self._expected[i]:
            self.release(i)

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
        for bucket in self._buckets_of[i]:
            self._left[bucket] -= 1
            if self._left[bucket] == 0:
                self.started = True
                self._start(bucket)

    def untouched(self, i: int) -> bool:
        seen, gradient = self._seen[i], self.arena.parameters[i].grad
        return seen is not None and gradient is seen[0] and gradient._version == seen[1]

    def finish(self, rates: list) -> None:
        """At step(): every gradient that is not in an exchange yet is collected. Errors when one that is was changed."""
        changed = [i for i, seen in enumerate(self._seen) if seen is not None and not self.untouched(i)]
        same_rates = self._rates is None or self._rates == rates
        if self.started and changed:
            raise InvalidArgument(
                f"the gradient of {self.arena.names[changed[0]]} was changed between backward and step(), after its "
                "exchange had started: clip with max_grad_norm=..., or set optimizer.overlap = False before training"
            )
        if self.started and not same_rates:
            raise InvalidArgument(
                f"the learning rates changed between backward and step(), from {self._rates} to {rates}: set them "
                "before backward, or set optimizer.overlap = False"
            )
        for i in range(len(self._came)):
            if not self._released[i] and not self.untouched(i):
                self.arena.collect(i)
        alike = bool(any(self._came)) and not changed and same_rates and self._came == self._expected
        self._alike = self._alike + 1 if alike else 0
        if any(self._came):
            self._expected = list(self._came)

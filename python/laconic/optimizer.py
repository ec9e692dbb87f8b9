"""What all optimizers of the package have in common."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections import defaultdict
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterable

import torch
import torch.distributed as dist

from . import _core, accelerator, agreement, groups, mesh, scaler, state, transport, writes
from .arena import Arena
from .arguments import text
from .errors import Error, InvalidArgument
from .overlap import Overlap
from .trace import Trace


class _Elsewhere(defaultdict):
    """`state` of the optimizers: nothing, the core has it."""

    def __bool__(self) -> bool:
        # Where it finds none, torch.distributed.checkpoint takes a step to fill it, and then looks for parameters there.
        if sys._getframe(1).f_globals.get("__name__") == "torch.distributed.checkpoint.state_dict":
            raise InvalidArgument(
                "torch's conversions of optimizer states (get_optimizer_state_dict, set_optimizer_state_dict) need a "
                "state per parameter, which laconic's optimizers do not have: give laconic.Sharded(optimizer) to "
                "torch.distributed.checkpoint"
            )
        return len(self) > 0


class Optimizer(torch.optim.Optimizer):
    """Base of laconic's optimizers. Construction is collective over `process_group`: all ranks make the same one.

    `options` are the registry's; keywords are those that Python has in a form of its own.
    """

    _method: dict[str, Any]  # its entry in the registry
    _core: Any = None  # None until it is built
    _inner: torch.optim.Optimizer | None = None  # what moves the weights between exchanges, in place of the core
    _overlap: Overlap

    # A GradScaler then leaves unscaling and the decision to skip to step(), where ranks agree on it.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Iterable[Any],
        defaults: dict[str, Any],
        options: dict[str, Any],
        *,
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        exchange: str | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        options = dict(options)
        options.update(
            ranks_per_node="flat" if ranks_per_node is None else ranks_per_node,
            bucket_elements=max(1, int(bucket_mb * 2**18)),
            max_grad_norm=max_grad_norm or 0.0,
            threads=threads or torch.get_num_threads(),
        )
        if exchange is not None:
            options["exchange"] = exchange
        self._options = {name: text(name, value) for name, value in options.items()}
        self._wants_overlap = overlap
        self._first = True
        self._skipped = 0
        self._fixed = [name for name in defaults if name not in groups.OF_GROUPS]
        self._awaits: str | None = None  # what is missing of a state that was loaded
        super().__init__(params, groups.plain_group({**defaults, "compress": True}))
        self.state = _Elsewhere(dict)
        self._before_groups = process_group is None and not agreement.initialised()
        self._transport, self._group = transport.connect(process_group, timeout)
        if self._group is not None:
            self._closer = weakref.finalize(self, self._group.close)
            self._closer.atexit = False  # laconic.transport closes all groups then
        self._shards = mesh.find(self.param_groups, process_group, timeout)
        if self._shards is not None:
            self._shards_closer = weakref.finalize(self, self._shards.close)
            self._shards_closer.atexit = False
        self._build()

    # Construction.

    def _build(self) -> None:
        """Makes arena, core and hooks for the groups as they are. Collective."""
        members = groups.Members(self.param_groups, self._shards)
        self._numbers, self._holders = members.numbers, members.holders
        groups.check_rates(self._rates())
        parameters, names, self._frozen = members.parameters, members.names, members.frozen
        agreement.same_model(self._group, type(self).__name__, parameters, names)
        if members.held_twice and self._options.get("exchange") == "auto":
            raise InvalidArgument(
                "exchange=auto chooses by measured time, and ranks that hold the same part of a model would choose otherwise: "
                "give another exchange, or shard every parameter"
            )
        arena = Arena(parameters, names)
        ends = [arena.range(i) for i in range(len(names))]
        ranges = [(name, begin, end - begin) for name, (begin, end) in zip(names, ends)]
        self._release()
        self._arena = arena
        where = [arena.weights, arena.gradient]
        if arena.on_gpu:
            self._options["device"] = accelerator.name_for(self._options.get("device", "cpu"), arena.device)
            where = [*arena.addresses(), arena.elements]
        self._core = _core.Optimizer(
            self._options, *where, members.sizes, ranges, self._may_overlap(), not arena.on_gpu, self._transport,
            None if self._shards is None else self._shards.transport,
        )  # fmt: skip
        self._follow()
        here: Any = weakref.ref(self)  # neither hooks nor what they call keep the optimizer alive
        self._buckets = self._core.buckets
        self._overlap = Overlap(
            arena,
            self._buckets,
            self._core.defers,
            start=lambda bucket: here()._start(bucket),
            rates=lambda: here()._rates(),
            abandon=lambda: here()._abandon(),
        )
        self._overlap.wanted = self._may_overlap()
        self._overlap.watch()
        self._overlap_closer = weakref.finalize(self, self._overlap.remove)
        if self._index_of is not None:
            self._take_over({id(parameter): i for i, parameter in enumerate(parameters)})

    def _follow(self) -> None:
        """The core waits for what torch's current stream does until now, and the stream for the core's next step."""
        if self._arena.on_gpu:
            self._core.follow(accelerator.current_stream(self._arena.device))

    _index_of: dict[int, int] | None = None  # under DistributedDataParallel: the parameters that it gives, by id

    def _may_overlap(self) -> bool:
        return self._wants_overlap and self._group is not None and float(self._options["max_grad_norm"]) == 0

    def _release(self) -> None:
        if self._core is not None:
            self._overlap.remove()
            self._overlap_closer.detach()
        self._core = None

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group, before the first step only: schedules and residuals cover all parameters from the start."""
        if self._core is not None and self._core.stats()["step"] > 0:
            raise InvalidArgument(
                "add_param_group after the first step: give all groups at the start, with lr=0 for those that rest, or "
                "make another optimizer for the new one"
            )
        if isinstance(param_group, dict):
            param_group.update(groups.plain_group(param_group))
        super().add_param_group(param_group)
        if self._core is not None:
            self._build()

    def _take_in_unfrozen(self) -> None:
        """Parameters that were frozen at construction are trained if they are unfrozen before the first step."""
        unfrozen = [name for parameter, name in self._frozen if parameter.requires_grad]
        if not unfrozen:
            return
        if self._first:
            return self._build()
        self._frozen = [(parameter, name) for parameter, name in self._frozen if not parameter.requires_grad]
        warnings.warn(
            f"{', '.join(unfrozen)} needed no gradient when the optimizer took its first step, and will not be trained: "
            "unfreeze before the first step, train all with lr=0 for those that rest, or make another optimizer",
            stacklevel=3,
        )

    # A step.

    def _rates(self) -> list[tuple[float, float]]:
        """Of each of the core's groups."""
        given = groups.rates(self.param_groups, {name: self.defaults[name] for name in self._fixed})
        return [given[number] for number in self._numbers]

    def _start(self, bucket: int) -> None:
        self._follow()
        if not self._begun:
            self._take_up_weights()
            self._core.begin(self._rates())
            self._begun = True
        if not self._core.defers:  # else nothing moves, and nothing is known to be absent, before step()
            absent = self._overlap.absent(bucket)
            if absent:
                self._core.absent(absent)
            self._arena.moved(*self._buckets[bucket])
        self._core.ready(bucket)

    _begun = False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step, the same one on every rank: collective unless the schedule makes it a local one."""
        self._check_usable()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._take_in_unfrozen()
        self._take_up_weights()
        rates = self._rates()
        overlap = self._overlap
        changed = overlap.finish(rates)
        if scaler.skips(self):
            self._skipped += 1
            overlap.new_step()
            return loss
        if self._first:
            self._refuse_loneliness()
            agreement.refuse_averaged(self._group, self._arena.gradient)
            if self._shards is not None:
                self._shards.refuse_different(self._arena.names, self._arena.gradient_parts(), self._holders)
        if not self._begun:
            self._core.begin(rates)
        elif self._core.defers:
            self._core.change_rates(rates)
        self._finish("exchange again" if changed and self._core.defers else "apply")
        return loss

    def _check_usable(self) -> None:
        if self._awaits is not None:
            raise InvalidArgument(self._awaits)
        if self._group is not None:
            self._group.check()

    def _finish(self, how: str) -> None:
        """Ends the step that has begun, on all ranks alike."""
        absent = self._overlap.absent()
        if absent:
            self._core.absent(absent)
        self._begun = False
        self._overlap.new_step()
        self._core.step(how)
        if self._core.stats()["kind"] == "skipped":
            if how != "abandon" and not self._told_of_skips:
                self._told_of_skips = True
                warnings.warn(
                    "laconic: another rank dropped its gradients before step(), so this step was skipped on all ranks",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return
        self._first = False
        self._arena.publish()

    _told_of_skips = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's. Called between backward and step() it skips the step, on all ranks.

        Where a coded exchange began during backward it cannot be undone: that step is finished on all ranks, gradients
        are cleared, overlap ends, and laconic.Error is raised. Training may go on; later steps can be skipped.
        """
        late = None
        if self._begun:
            late = self._abandon()
        elif self._core is not None:
            self._overlap.new_step()
        super().zero_grad(set_to_none)
        if late is not None:
            raise late

    @torch.no_grad()
    def _abandon(self) -> Error | None:
        """The gradients of a step that has begun were dropped before step(): what to raise if that came too late."""
        self._overlap.disturbed()
        if self._core.defers:
            self._finish("abandon")
            return None
        self._overlap.wanted = False
        self._overlap.finish(self._rates())
        self._finish("apply")
        return Error(
            "step taken",
            f"the gradients were dropped before step(), but {type(self).__name__} exchanges during backward and its "
            "residuals had moved: the step was finished on all ranks, and the batch counts. The optimizer can be used on; "
            "overlap is off now, so later steps can be skipped. Set optimizer.overlap = False before training if batches "
            "may be skipped",
        )

    def _take_up_weights(self) -> None:
        self._follow()
        writes.take_up(self)

    def _refuse_loneliness(self) -> None:
        if self._before_groups:
            agreement.refuse_loneliness()

    # Under DistributedDataParallel gradients come bucket by bucket, and it writes them back when backward ends.

    def _take_over(self, index: dict[int, int]) -> None:
        self._refuse_loneliness()
        self._index_of = index
        self._arena.attach = False
        self._overlap.remove()
        self._settling = False

    def _bucket_came(self, parameters: list) -> None:
        if not self._settling:
            self._settling = True
            engine = torch.autograd.Variable._execution_engine
            here: Any = weakref.ref(self)
            # Queued twice, so as to come after DDP's own callback.
            engine.queue_callback(lambda: engine.queue_callback(lambda: here()._settle()))
        index = self._index_of or {}
        for parameter in parameters:
            i = index.get(id(parameter))
            if i is not None:
                self._overlap.gradient_came(i)

    def _settle(self) -> None:
        self._settling = False
        self._overlap.note_again()

    @property
    def overlap(self) -> bool:
        """Whether the exchange may start while backward is running; set it between steps."""
        return self._overlap.wanted

    @overlap.setter
    def overlap(self, wanted: bool) -> None:
        self._wants_overlap = bool(wanted)
        self._overlap.wanted = self._may_overlap()

    # State.

    def state_dict(self) -> dict[str, Any]:
        """All of this rank's state, residuals and counters included: each rank saves and loads its own."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        self._take_up_weights()
        saved = state.of_rank(self)
        for hook in self._optimizer_state_dict_post_hooks.values():
            saved = _or(hook(self, saved), saved)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on exactly where this rank's state_dict() was taken, or from what laconic.consolidate() put together."""
        saved = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            saved = _or(hook(self, saved), saved)
        self._take_in_unfrozen()
        state.load(self, saved)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InvalidArgument(
            "an optimizer of laconic is one of several ranks' and cannot be copied or pickled: save its state_dict() "
            "(or laconic.save); for a copy of the model make another optimizer and load_state_dict(...) the state"
        )

    # What is more than a torch optimizer's.

    def synchronize(self) -> None:
        """After it the weights are byte-equal on all ranks. Collective; costs nothing right after a sync."""
        self._take_up_weights()
        self._core.synchronize()
        self._arena.publish()

    @contextmanager
    def synced(self):
        """While inside, the model has the weights of the last sync, equal on all ranks: for evaluation and saving."""
        self._take_up_weights()
        arena = self._arena
        own = arena.weights.clone()
        if arena.on_gpu:
            host = torch.empty(arena.elements)
            self._core.synced_weights(host)
            arena.weights.copy_(host)
        else:
            self._core.synced_weights(arena.weights)
        arena.publish()
        self._shows_synced = True
        try:
            yield
        finally:
            self._shows_synced = False
            arena.weights.copy_(own)
            arena.publish()

    _shows_synced = False

    def trace(self, path: str | os.PathLike) -> Trace:
        """From now on notes when each bucket was computed, encoded, sent and decoded, between two steps.

        `close()` of what it returns, or the end of its `with`, writes that to `path` in Chrome's trace format
        (ui.perfetto.dev shows it); give each rank a path of its own.
        """
        return Trace(self._core, path)

    def stats(self) -> dict[str, Any]:
        """What the last step was, and totals: kinds of steps, bytes sent by this rank, bits per parameter and step."""
        stats = self._core.stats()
        totals = self._core.totals()
        totals["skipped"] += self._skipped
        stats["totals"] = totals
        ranks = self._transport.size
        sent = totals["bytes_sent"] * 8 / (max(1, self._arena.elements) * max(1, totals["steps"]))
        stats["bits_per_parameter_per_step"] = sent / (2 * (ranks - 1) / ranks) if ranks > 1 else 0.0
        stats["ranks"] = ranks
        stats["shards"] = 1 if self._shards is None else self._shards.size
        stats["parameters"] = self._arena.elements
        return stats

    def describe(self) -> str:
        """What really runs: algorithm, coding, ranks, transport."""
        where = "alone" if self._group is None else f"over torch.distributed ({self._group.backend})"
        hands = "" if self._arena.attach else ", in place of DistributedDataParallel's all-reduce"
        part = "" if self._shards is None else f", shard {self._shards.rank + 1} of {self._shards.size}"
        return f"{self._core.describe()}, {where}{part}{hands}"

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n[{self.describe()}]" if self._core is not None else super().__repr__()


def _or(returned: dict | None, before: dict) -> dict:
    return before if returned is None else returned

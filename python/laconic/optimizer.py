"""What all optimizers of the package have in common."""

from __future__ import annotations

import hashlib
import math
import sys
import warnings
import weakref
from collections import defaultdict
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterable

import torch
import torch.distributed as dist

from . import _core, state, transport
from .arena import Arena, check_parameter, dense_strides
from .errors import Error, InvalidArgument
from .overlap import Overlap

_NOT_NUMBERS = {"params", "param_names"}  # of a group
_OF_GROUPS = {"lr", "weight_decay"}  # what groups may have of their own, and schedulers may change
_WHOLE = {o["name"] for method in _core.methods() for o in method["options"] if o["type"] == "integer"}


def plain(name: str, value: Any) -> Any:
    """Scalars of numpy and torch, lists and whole floats as what Python has for them."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1:
        return tuple(plain(name, one) for one in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if name in _WHOLE and isinstance(value, float):
        if not value.is_integer():
            raise InvalidArgument(f"{name}={value}: it must be a whole number")
        return int(value)
    return value


def _plain_group(group: dict[str, Any]) -> dict[str, Any]:
    """A learning rate may stay a tensor, which schedulers then write to."""
    kept = {name for name, value in group.items() if name == "lr" and isinstance(value, torch.Tensor)}
    return {name: value if name in kept | _NOT_NUMBERS else plain(name, value) for name, value in group.items()}


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


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
    """Base of laconic's optimizers. Construction is collective over `process_group`: all ranks make the same one."""

    _method: dict[str, Any]  # its entry in the registry

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
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        exchange: str | None = None,
        strict: bool = False,
        bf16: bool = False,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        options = dict(options)
        options.update(
            ranks_per_node="flat" if ranks_per_node is None else ranks_per_node,
            bucket_elements=max(1, int(bucket_mb * 2**18)),
            max_grad_norm=max_grad_norm or 0.0,
            seed=seed,
            shadow_every=shadow_every,
            verify_every=verify_every,
            strict=strict,
            bf16=bf16,
            threads=threads or torch.get_num_threads(),
        )
        if exchange is not None:
            options["exchange"] = exchange
        self._options = {name: _text(plain(name, value)) for name, value in options.items()}
        self._core: _core.Optimizer | None = None
        self._overlap: Overlap | None = None
        self._wants_overlap = overlap
        self._first = True
        self._skipped = 0
        self._fixed = [name for name in defaults if name not in _OF_GROUPS]
        self._awaits: str | None = None  # what is missing of a state that was loaded
        super().__init__(params, _plain_group({**defaults, "compress": True}))
        self.state = _Elsewhere(dict)
        self._before_groups = process_group is None and not _initialised()
        self._transport, self._group = transport.connect(process_group, timeout)
        if self._group is not None:
            self._closer = weakref.finalize(self, self._group.close)
            self._closer.atexit = False  # laconic.transport closes all groups then
        self._build()

    # Construction.

    def _build(self) -> None:
        """Makes arena, core and hooks for the groups as they are. Collective."""
        for lr, weight_decay in self._rates():
            if not 0 <= lr < math.inf or not 0 <= weight_decay < math.inf:
                raise InvalidArgument(f"lr={lr} and weight_decay={weight_decay}: both must be finite and at least 0")
        parameters, names, sizes, self._frozen = [], [], [], []
        for number, group in enumerate(self.param_groups):
            mine = [p for p in group["params"] if p.requires_grad]
            first = len(names) + len(self._frozen)
            given = group.get("param_names") or [f"parameter {first + i}" for i in range(len(group["params"]))]
            for parameter, name in zip(group["params"], given):
                check_parameter(parameter, name)
                if parameter.requires_grad:
                    parameters.append(parameter)
                    names.append(name)
                else:
                    self._frozen.append((parameter, name))
            sizes.append((_group_name(number, mine), sum(p.numel() for p in mine), bool(group["compress"])))
        if not parameters:
            raise InvalidArgument("no parameter requires a gradient: there is nothing to train")
        self._agree_on_shapes(parameters, names)
        arena = Arena(parameters, names, keeps_weights=bool(self._method["synced_weights"]))
        ranges = [(name, *_begin_count(arena.range(i))) for i, name in enumerate(names)]
        self._release()
        self._arena = arena
        self._core = _core.Optimizer(
            self._options, arena.weights, arena.gradient, sizes, ranges, self._may_overlap(), self._transport
        )
        here = weakref.ref(self)  # neither hooks nor what they call keep the optimizer alive
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

    _index_of: dict[int, int] | None = None  # under DistributedDataParallel: the parameters that it gives, by id

    def _may_overlap(self) -> bool:
        return self._wants_overlap and self._group is not None and float(self._options["max_grad_norm"]) == 0

    def _release(self) -> None:
        if self._overlap is not None:
            self._overlap.remove()
            self._overlap_closer.detach()
        self._core = self._overlap = None

    def _agree_on_shapes(self, parameters: list, names: list[str]) -> None:
        """Different models are found here, and both shapes named."""
        if self._group is None:
            return
        lines = [f"{name} {tuple(p.shape)} {p.dtype}{_by_strides(p)}" for p, name in zip(parameters, names)]
        mine = "\n".join([f"{type(self).__name__}", *lines]).encode()
        digests = self._group.gather(torch.tensor(list(hashlib.sha256(mine).digest()), dtype=torch.uint8))
        if bool((digests == digests[0]).all()):
            return
        every = [text.decode().split("\n") for text in self._group.gather_bytes(mine)]
        for rank, other in enumerate(every):
            for a, b in zip(other + ["nothing"], every[0] + ["nothing"]):
                if a != b:
                    here, there = self._group.ranks[rank], self._group.ranks[0]
                    raise InvalidArgument(
                        f"rank {here} has {a} where rank {there} has {b}: build the same model, in the same order, on "
                        "every rank"
                    )

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group, before the first step only: schedules and residuals cover all parameters from the start."""
        if self._core is not None and self._core.stats()["step"] > 0:
            raise InvalidArgument(
                "add_param_group after the first step: give all groups at the start, with lr=0 for those that rest, or "
                "make another optimizer for the new one"
            )
        if isinstance(param_group, dict):
            param_group.update(_plain_group(param_group))
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
        for group in self.param_groups:
            for name in self._fixed:
                if name in group and group[name] != self.defaults[name]:
                    raise InvalidArgument(
                        f"a group has {name}={group[name]}, the optimizer {self.defaults[name]}: {name} is the same for "
                        "all groups and steps (OneCycleLR: cycle_momentum=False)"
                    )
        return [(float(group["lr"]), float(group["weight_decay"])) for group in self.param_groups]

    def _start(self, bucket: int) -> None:
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
        """One step, the same one on every rank: collective unless the schedule says that it is silent."""
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
        if self._unscale():
            self._skipped += 1
            overlap.new_step()
            return loss
        if self._first:
            self._refuse_averaged()
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
        are cleared, overlap ends, and laconic.Error says so. Training may go on; later steps can be skipped.
        """
        late = None
        if self._begun:
            late = self._abandon()
        elif self._overlap is not None:
            self._overlap.new_step()
        super().zero_grad(set_to_none)
        if late is not None:
            raise late

    @torch.no_grad()
    def _abandon(self) -> Error | None:
        """The gradients of a step that has begun were dropped before step(): what to raise if that came too late."""
        self._overlap.disturbed()
        if self._core.defers:
            return self._finish("abandon")
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

    @torch.no_grad()
    def _take_up_weights(self) -> None:
        """Weights that others wrote between steps count, or are an error before anything was started."""
        arena = self._arena
        arena.take_home(started=not self._first)
        if self._begun and not self._core.defers:
            touched = arena.touched()
            if touched:
                arena.note_touched()
                raise InvalidArgument(
                    f"{arena.names[touched[0]]} was written to between backward and step(), after its exchange had "
                    "started: write after step(), or set optimizer.overlap = False before training"
                )
            return
        written = arena.written()
        if not written:
            return
        arena.read_back(written)
        if not self._first:
            self._synced_take(written)
        arena.note()

    def _synced_take(self, written: list[int]) -> None:
        """The weights of the last sync, where the method goes on from them, take what was written to these parameters."""
        places = state.synced_weights(self)
        if not places:
            return
        arena, weights = self._arena, self._arena.weights
        synced = torch.empty_like(weights)
        self._core.synced_weights(synced)
        ahead = arena.ahead_of(synced, written)
        if ahead:
            raise InvalidArgument(
                f"{arena.names[ahead[0]]} was written to between two steps, while this rank was ahead of the last sync; "
                f"{self._method['title']} goes on from the synced weights and would undo it: call optimizer.synchronize() before you "
                "write, and load the model's state before the optimizer's"
            )
        for i in written:
            begin, end = arena.range(i)
            synced[begin:end] = weights[begin:end]
        for (begin, count), values in zip(self._buckets, places):
            values.copy_(synced[begin : begin + count])

    def _unscale(self) -> bool:
        """For a GradScaler: divides by its scale and tells whether all ranks must skip."""
        found = getattr(self, "found_inf", None)
        if found is None:
            return False
        if self._begun:
            raise InvalidArgument(
                "a GradScaler is used after steps without one, and an exchange has started: set "
                "optimizer.overlap = False before training"
            )
        self._overlap.disturbed()  # the next gradients are scaled too
        bad = torch.tensor([float(found)])
        if self._group is not None:
            bad = self._group.gather(bad).max()
        if bool(bad > 0):
            self._found_inf_everywhere()
            return True
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            self._arena.gradient.mul_(1.0 / float(scale))
        return False

    def _found_inf_everywhere(self) -> None:
        """The scaler of every rank must see it, or their scales differ; what it gave as found_inf is a copy."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not torch.amp.GradScaler.step.__code__:
            frame = frame.f_back
        if frame is not None:
            for found in frame.f_locals["self"]._found_inf_per_device(self).values():
                found.fill_(1.0)

    def _refuse_averaged(self) -> None:
        """Gradients that are equal on all ranks were averaged by somebody else, or all ranks see the same data."""
        self._refuse_loneliness()
        if self._group is None:
            return
        gradient = self._arena.gradient
        mine = [_core.hash64(gradient) & (2**62 - 1), int(bool(gradient.any()))]
        every = self._group.gather(torch.tensor(mine))
        if bool((every == every[0]).all()) and bool(every[0, 1]):
            raise InvalidArgument(
                "gradients are equal on all ranks before the first exchange: DistributedDataParallel has averaged them "
                "(hand it over with laconic.ddp(model, optimizer)), or every rank has the same data"
            )

    def _refuse_loneliness(self) -> None:
        if self._before_groups and _initialised() and dist.get_world_size() > 1:
            raise InvalidArgument(
                f"the optimizer was made before init_process_group and knows nothing of the {dist.get_world_size()} "
                "ranks: make it afterwards"
            )

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
            here = weakref.ref(self)
            # Queued twice, so as to come after DDP's own callback.
            engine.queue_callback(lambda: engine.queue_callback(lambda: here()._settle()))
        for parameter in parameters:
            i = self._index_of.get(id(parameter))
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
        self._core.synced_weights(arena.weights)
        arena.publish()
        try:
            yield
        finally:
            arena.weights.copy_(own)
            arena.publish()

    def stats(self) -> dict[str, Any]:
        """What the last step was, and totals: kinds of steps, bytes sent by this rank, bits per parameter and step."""
        stats = self._core.stats()
        totals = self._core.totals()
        totals["skipped"] += self._skipped
        stats["totals"] = totals
        ranks = self._transport.size
        sent = totals["bytes_sent"] * 8 / (self._arena.elements * max(1, totals["steps"]))
        stats["bits_per_parameter_per_step"] = sent / (2 * (ranks - 1) / ranks) if ranks > 1 else 0.0
        stats["ranks"] = ranks
        stats["parameters"] = self._arena.elements
        return stats

    def describe(self) -> str:
        """What really runs: algorithm, coding, ranks, transport."""
        where = "alone" if self._group is None else f"over torch.distributed ({self._group.backend})"
        hands = "" if self._arena.attach else ", in place of DistributedDataParallel's all-reduce"
        return f"{self._core.describe()}, {where}{hands}"

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n[{self.describe()}]" if self._core is not None else super().__repr__()


def _or(returned: dict | None, before: dict) -> dict:
    return before if returned is None else returned


def _initialised() -> bool:
    return dist.is_available() and dist.is_initialized()


def _begin_count(ends: tuple[int, int]) -> tuple[int, int]:
    return ends[0], ends[1] - ends[0]


def _by_strides(parameter: torch.Tensor) -> str:
    """Names the layout of a parameter where it is not the usual one."""
    strides = dense_strides(parameter)
    return "" if parameter.is_contiguous() or strides != parameter.stride() else f" with strides {strides}"


def _group_name(number: int, parameters: list) -> str:
    """Checkpoints compare names: elements in another order belong to another group."""
    layouts = "".join(f"{i}{_by_strides(p)}\n" for i, p in enumerate(parameters) if _by_strides(p))
    return f"group {number}, strided {hashlib.sha256(layouts.encode()).hexdigest()[:8]}" if layouts else f"group {number}"

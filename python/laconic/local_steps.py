"""Local steps: any torch optimizer trains each rank alone, and from time to time the ranks exchange how far they moved."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable

import torch

from . import _core, agreement, groups, state
from .errors import InvalidArgument
from .flat_copy import FlatCopy
from .optimizer import Optimizer
from .shards import gradient_of

_BETWEEN = (
    "ranks are apart between exchanges, and a write would count as learnt: call synchronize() before you write, or write in a "
    "hook of the inner optimizer (inner.register_step_post_hook)"
)


class AroundInner(Optimizer):
    """Base of the optimizers that stand around a torch optimizer. Construction is collective over `process_group`.

    `param_groups`, `state` and `defaults` are the inner optimizer's own. Parameters stay where they are: the core works on
    a flat float32 copy, which is read and written in steps that exchange or apply something, and in no other.
    """

    _arena: Any  # a FlatCopy
    _inner: torch.optim.Optimizer

    def __init__(self, inner: torch.optim.Optimizer, options: dict[str, Any], **shared: Any) -> None:
        _check_inner(inner)
        self._inner = inner
        self._built_for: list[tuple] = []
        super().__init__(inner.param_groups, {}, {**options, "inner": "none"}, overlap=False, **shared)
        self.defaults = inner.defaults

    @property
    def inner(self) -> torch.optim.Optimizer:
        """The optimizer that moves this rank's weights."""
        return self._inner

    # Torch's constructor gives empty ones, which stand for nothing here.

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self._inner.param_groups

    @param_groups.setter
    def param_groups(self, given: list[dict[str, Any]]) -> None:
        if given:
            self._inner.param_groups = given

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self._inner.state

    @state.setter
    def state(self, given: Any) -> None:
        if len(given):
            self._inner.state = given

    # Construction.

    def _build(self) -> None:
        """Makes copy and core for the inner optimizer's groups as they are. Collective."""
        members = groups.Members(_once(self.param_groups), self._shards)
        self._numbers, self._holders = members.numbers, members.holders
        groups.check_rates(self._rates())
        kind = f"{type(self).__name__} around {type(self._inner).__name__}"
        agreement.same_model(self._group, kind, members.parameters, members.names)
        self._core = None
        copy = FlatCopy(members.parameters, members.names)
        ends = [copy.range(i) for i in range(len(members.names))]
        ranges = [(name, begin, end - begin) for name, (begin, end) in zip(members.names, ends)]
        none = torch.zeros(0)  # the core needs no gradient, and the weights that it would watch are the copy's
        self._core = _core.Optimizer(
            self._options, copy.weights, none, members.sizes, ranges, False, False, self._transport,
            None if self._shards is None else self._shards.transport,
        )  # fmt: skip
        self._arena, self._frozen, self._built_for = copy, members.frozen, self._members()
        if self._core.config()["outer"] == "sign":
            self._refuse_without_rate()

    def _members(self) -> list[tuple]:
        """What the core is built for: the parameters of each group, and what they are."""
        return [
            (number, id(p), tuple(p.shape), p.dtype, p.stride(), p.requires_grad)
            for number, group in enumerate(self.param_groups)
            for p in group["params"]
        ]

    def _refuse_without_rate(self) -> None:
        for number, group in enumerate(self.param_groups):
            if group.get("lr") is None:
                raise InvalidArgument(
                    f"outer=sign steps by the learning rate of the inner optimizer, and group {number} of "
                    f"{type(self._inner).__name__} has none: use another outer rule, or give it an lr"
                )

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group to the inner optimizer, before the first step only."""
        if self._core is None:  # torch's constructor: the inner optimizer has it
            return
        if not self._first:
            raise InvalidArgument(
                "add_param_group after the first step: give all groups at the start, with lr=0 for those that rest, or make "
                "another optimizer for the new one"
            )
        self._inner.add_param_group(param_group)
        self._build()

    def _rates(self) -> list[tuple[float, float]]:
        given = [0.0 if group.get("lr") is None else float(group["lr"]) for group in self.param_groups]
        return [(given[number], 0.0) for number in self._numbers]

    def _take_over(self, index: dict[int, int]) -> None:
        raise InvalidArgument(
            f"{type(self).__name__} exchanges no gradients: wrap the model in DistributedDataParallel over the process group of "
            "a node, or not at all, and give the group between nodes as process_group"
        )

    # What others did since the last step.

    def _take_in_unfrozen(self) -> None:
        """Before the first step the model may still change; then its parameters stay the same ones."""
        if self._first:
            if self._members() != self._built_for:
                self._build()
            return
        now = [id(p) for group in self.param_groups for p in group["params"]]
        then = [one[1] for one in self._built_for]
        if now != then:
            i = next((i for i, (a, b) in enumerate(zip(now, then)) if a != b), min(len(now), len(then)))
            raise InvalidArgument(
                f"the inner optimizer has {len(now)} parameters, the first other one at {i}, where it had {len(then)} at its "
                "first step: give all parameters at the start, or make another optimizer"
            )
        super()._take_in_unfrozen()

    def _take_up_weights(self) -> None:
        """The copy becomes what the parameters are; what was written counts while all ranks are in sync, else is an error."""
        if self._shows_synced:
            return
        copy = self._arena
        copy.take_home(started=not self._first)
        written = copy.written()
        if written and not self._core.in_sync:
            step = self._core.stats()["step"]
            raise InvalidArgument(f"{copy.names[written[0]]} was written to between step {step} and {step + 1}: {_BETWEEN}")
        copy.gather(self._core.synced_weights)
        if not written:
            return
        copy.note()
        if not self._first:  # then the core takes what it finds
            parts = state.synced_weights(self)
            for part, own in zip(parts, torch.split(copy.weights, [part.numel() for part in parts])):
                part.copy_(own)

    # A step.

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The inner optimizer's step, and the exchange or the outer rule where one is due: collective there only."""
        self._check_usable()
        if self._shows_synced:
            raise InvalidArgument("step() inside synced(): the model shows the weights of the last exchange, leave it first")
        self._take_in_unfrozen()
        rates = self._rates()
        groups.check_rates(rates)
        if self._first or self._arena.written():
            self._take_up_weights()
        else:
            self._arena.take_home(started=True)
        if self._first:
            self._refuse_loneliness()
            self._agree_on_first_weights()
        touched = self._with_gradient()
        try:
            loss = self._move(closure)
        except BaseException:
            self._arena.note()  # what was moved was moved by the inner optimizer
            raise
        if self._first and self._shards is not None:
            parts = (gradient_of(p) for p in self._arena.parameters)
            held = [torch.zeros(0) if part is None else part.detach().reshape(-1).float().cpu() for part in parts]
            self._shards.refuse_different(self._arena.names, held, self._holders)
        self._advance(rates, touched)
        return loss

    def _advance(self, rates: list[tuple[float, float]], touched: set[int]) -> None:
        """One step of the core, after that of the inner optimizer."""
        copy, core = self._arena, self._core
        touched |= self._with_gradient() | set(copy.moved())
        looks = core.exchanges_next
        core.begin(rates)
        if looks:
            copy.gather(core.synced_weights)
        core.absent([i for i in range(len(copy.parameters)) if i not in touched])
        core.step()
        self._first = False
        if looks:
            copy.publish()

    def _with_gradient(self) -> set[int]:
        return {i for i, p in enumerate(self._arena.parameters) if p.grad is not None}

    def _agree_on_first_weights(self) -> None:
        copy = self._arena
        parts = (copy.weights[slice(*copy.range(i))] for i in range(len(copy.names)))
        lines = [f"{name} with weights of hash {_core.hash64(part):016x}" for name, part in zip(copy.names, parts)]
        agreement.agree(self._group, lines, "start all ranks from the same weights, or broadcast them")

    def _move(self, closure: Callable[[], Any] | None) -> Any:
        """The inner optimizer's step; where a GradScaler found an infinity it is skipped on this rank, and time goes on."""
        inner: Any = self._inner
        found, scale = getattr(self, "found_inf", None), getattr(self, "grad_scale", None)
        if found is None:
            return inner.step() if closure is None else inner.step(closure)
        self._skipped += bool(found)
        if getattr(inner, "_step_supports_amp_scaling", False):
            inner.grad_scale, inner.found_inf = scale, found
            try:
                return inner.step()
            finally:
                del inner.grad_scale, inner.found_inf
        if bool(found):
            return None
        if scale is not None:
            with torch.no_grad():
                for p in self._arena.parameters:
                    if p.grad is not None:
                        p.grad.mul_(1.0 / float(scale))
        return inner.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._inner.zero_grad(set_to_none)

    @property
    def overlap(self) -> bool:
        """False: nothing is exchanged during backward."""
        return False

    @overlap.setter
    def overlap(self, wanted: bool) -> None:
        if wanted:
            raise InvalidArgument("overlap = True: local steps exchange no gradients; with a delay exchanges overlap with steps")

    # What is more than a torch optimizer's.

    @contextmanager
    def synced(self):
        """While inside, the model has the weights of the last exchange, equal on all ranks: for evaluation and saving."""
        self._take_up_weights()
        weights = torch.empty_like(self._arena.weights)
        self._core.synced_weights(weights)
        self._arena.show(weights)
        self._shows_synced = True
        try:
            yield
        finally:
            self._shows_synced = False
            self._arena.publish()

    def describe(self) -> str:
        """What really runs: inner optimizer, outer rule, coding, ranks, transport."""
        return super().describe().replace("the caller's update", type(self._inner).__name__)


def _check_inner(inner: Any) -> None:
    if isinstance(inner, Optimizer):
        raise InvalidArgument(
            f"the inner optimizer is laconic's {type(inner).__name__}, which exchanges by itself: give one of torch.optim, or "
            "your own"
        )
    if not isinstance(inner, torch.optim.Optimizer):
        raise InvalidArgument(
            f"the inner optimizer is {type(inner).__name__}: give a torch.optim.Optimizer, made with the model's parameters"
        )


def _once(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups as groups.Members takes them, each parameter in the first place that it has."""
    seen: set[int] = set()
    out = []
    for group in given:
        fresh = [i for i, p in enumerate(group["params"]) if id(p) not in seen and not seen.add(id(p))]  # type: ignore[func-returns-value]
        names = group.get("param_names")
        out.append(
            {"params": [group["params"][i] for i in fresh], "compress": group.get("compress", True)}
            | ({"param_names": [names[i] for i in fresh]} if names else {})
        )
    return out

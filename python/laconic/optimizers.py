"""The optimizers."""

from __future__ import annotations

from typing import Any, Iterable

from .errors import InvalidArgument
from .optimizer import Optimizer, plain

_SHARED = """
    Shared by all optimizers: `process_group` (default: all ranks), `ranks_per_node` (None: flat, always coded; a number
    or "auto": exact inside a node, coded between nodes), `bucket_mb` (how much is exchanged at a time while backward
    runs), `max_grad_norm` (clipping, over all ranks), `seed`, `shadow_every` (gauge coded against exact means),
    `verify_every` (prove that replicas are equal), `exchange="auto"` (optimizers that code: each bucket coded or exact,
    whichever is measured to be faster, so runs do not repeat bit for bit; `strict=True`: decided once), `bf16` (exact means travel as bf16), `overlap`, `threads` (default:
    torch.get_num_threads()), `timeout` (a timedelta; default: the process group's).
    A group may have its own `lr`, `weight_decay` and `compress=False` (exact means).
"""


def _aliased(given: dict[str, Any], aliases: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
    """Takes DeepSpeed's names out of `given`."""
    for alias, name in aliases.items():
        if alias in given:
            options[name] = given.pop(alias)
    return given


def _moments(betas: Iterable[float]) -> dict[str, float]:
    both = plain("betas", betas)
    if not isinstance(both, tuple) or len(both) != 2:
        raise InvalidArgument(f"betas={betas}: give two numbers")
    return dict(beta1=both[0], beta2=both[1])


def _documented(cls: type) -> type:
    head, example = (cls.__doc__ or "").rsplit("\n\n", 1)
    cls.__doc__ = f"{head}\n{_SHARED}\n{example}"
    return cls


@_documented
class ZeroOneAdam(Optimizer):
    """0/1 Adam: one bit a parameter when it speaks, and often it says nothing at all.

    `variance_freeze_step` (15 % of `total_steps`) is the end of learning-rate warm-up; until then some steps are exact.
    `double_every` ((total - freeze)/6 steps, or "auto": from the learning rate) doubles the interval between exchanges,
    up to `max_interval`. DeepSpeed's names are aliases: var_freeze_step, var_update_scaler, local_step_scaler,
    local_step_clipper.

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.ZeroOneAdam([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"]
    20
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        total_steps: int | None = None,
        variance_freeze_step: int | None = None,
        variance_kappa: int = 16,
        double_every: int | str | None = None,
        max_interval: int = 16,
        scale_block: int = 4096,
        scale_norm: str = "l2",
        variance_floor: float = 0.01,
        **shared: Any,
    ) -> None:
        options = dict(
            algorithm="zero-one-adam", **_moments(betas), epsilon=eps, weight_decay=weight_decay,
            bias_correction=bias_correction, total_steps=total_steps, variance_freeze_step=variance_freeze_step,
            variance_kappa=variance_kappa, double_every=double_every, max_interval=max_interval,
            scale_block=scale_block, scale_norm=scale_norm, variance_floor=variance_floor,
        )  # fmt: skip
        aliases = {
            "var_freeze_step": "variance_freeze_step",
            "var_update_scaler": "variance_kappa",
            "local_step_scaler": "double_every",
            "local_step_clipper": "max_interval",
        }
        shared = _aliased(shared, aliases, options)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), options, **shared)


@_documented
class OneBitAdam(Optimizer):
    """1-bit Adam: Adam on exact means until `freeze_step`, one bit a parameter on every step after it.

    `freeze_step` is a number, "auto" (when the variance has settled) or None: 20 % of `total_steps`.

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.OneBitAdam([weight], lr=1e-2, freeze_step=5)
    >>> for _ in range(10):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["kind"]
    'coded'
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        total_steps: int | None = None,
        freeze_step: int | str | None = None,
        scale_block: int = 4096,
        scale_norm: str = "l2",
        variance_floor: float = 0.01,
        **shared: Any,
    ) -> None:
        options = dict(
            algorithm="one-bit-adam", **_moments(betas), epsilon=eps, weight_decay=weight_decay,
            bias_correction=bias_correction, total_steps=total_steps, freeze_step=freeze_step,
            scale_block=scale_block, scale_norm=scale_norm, variance_floor=variance_floor,
        )  # fmt: skip
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), options, **shared)


@_documented
class Birder(Optimizer):
    """Birder: random signs from the first step on, no residuals; about 2 to 3 times AdamW's learning rate.

    `exchange` is "two-round" (the paper's), "single-round" (half the bytes), "count" (less noise) or "auto".

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.Birder([weight], lr=1e-2, exchange="single-round", seed=1)
    >>> (weight - 1).square().sum().backward()
    >>> optimizer.step()
    >>> sorted(set(weight.tolist())) == [weight.max().item()]  # all agree: one sign
    True
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        beta: float = 0.9,
        weight_decay: float = 0.0,
        *,
        exchange: str = "two-round",
        total_steps: int | None = None,
        scale_block: int = 4096,
        **shared: Any,
    ) -> None:
        options = dict(
            algorithm="birder", beta=beta, weight_decay=weight_decay, total_steps=total_steps,
            scale_block=scale_block,
        )  # fmt: skip
        defaults = dict(lr=lr, beta=beta, weight_decay=weight_decay)
        super().__init__(params, defaults, options, exchange=exchange, **shared)


@_documented
class AdamW(Optimizer):
    """AdamW on the exact mean of the gradients, as torch.optim.AdamW under DistributedDataParallel.

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.AdamW([weight], lr=1e-2)
    >>> (weight - 1).square().sum().backward()
    >>> optimizer.step()
    >>> round(weight[0].item(), 6)
    0.01
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        bias_correction: bool = True,
        scale_block: int = 4096,
        **shared: Any,
    ) -> None:
        options = dict(
            algorithm="adamw", **_moments(betas), epsilon=eps, weight_decay=weight_decay,
            bias_correction=bias_correction, scale_block=scale_block,
        )  # fmt: skip
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay), options, **shared)


@_documented
class SGD(Optimizer):
    """SGD with momentum on the exact mean of the gradients. Weight decay is decoupled, torch.optim.SGD's is not.

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(3))
    >>> optimizer = laconic.SGD([weight], lr=0.1, momentum=0.9)
    >>> weight.grad = torch.ones(3)
    >>> optimizer.step()
    >>> [round(x, 6) for x in weight.tolist()]
    [-0.1, -0.1, -0.1]
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        scale_block: int = 4096,
        **shared: Any,
    ) -> None:
        options = dict(algorithm="sgdm", momentum=momentum, weight_decay=weight_decay, scale_block=scale_block)
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay), options, **shared)


__all__ = ["ZeroOneAdam", "OneBitAdam", "Birder", "AdamW", "SGD", "InvalidArgument"]

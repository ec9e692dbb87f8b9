"""Will it pay? What a step costs on a cluster, without running it: the cost model of `laconic plan`."""

from __future__ import annotations

import math
from typing import Any, Sequence

from .. import _core
from ..errors import InvalidArgument
from ..units import link

__all__ = ["break_even", "predict", "recipe"]


def _prepared(
    optimizer: str,
    *,
    parameters: int,
    step_seconds: float,
    nodes: int,
    per_node: int = 1,
    inter: str | tuple[float, float] | None = None,
    intra: str | tuple[float, float] | None = None,
    exchange: str = "flat",
    form: str = "two-round",
    bf16: bool = False,
    dense_codec: str = "",
    momentum_sync_every: int = 0,
    total_steps: int = 100_000,
    recipe: str = "",
    backward_share: float = 2 / 3,
    bucket_elements: int = 6_553_600,
    shares_cores: bool = False,
    threads: float = 1,
    ready: Sequence[float] = (),
    speeds: dict[str, float] | None = None,
    slices: int = 8,  # those of an exchange over torch.distributed
) -> tuple[_core.Scene, _core.Method, _core.Length]:
    scene = _core.Scene()
    scene.nodes, scene.per_node = nodes, per_node
    for set_link, given in ((scene.set_inter, inter), (scene.set_intra, intra)):
        set_link(*((math.inf, 0.0) if given is None else link(given) if isinstance(given, str) else given))
    scene.set_work(parameters, step_seconds, backward_share, bucket_elements, slices, shares_cores)
    scene.set_ready(list(ready))
    for name, seconds in (speeds or {}).items():
        scene.set_speed(name, seconds)
    scene.code_faster(threads)
    method = _core.Method(optimizer, exchange, form, bf16, dense_codec)
    return scene, method, _core.Length(total_steps, momentum_sync_every, recipe)


def predict(optimizer: str, **options: Any) -> dict[str, Any]:
    """The mean step of a run: seconds, what is exposed of the network, bytes that a rank sends, memory, shares of steps.

    `optimizer`: any of `laconic methods`; random signs have a `form`: two-round, single-round, count.
    Needed: `parameters`, `step_seconds` (forward and backward of one rank), `nodes`. Else: `per_node` (ranks, 1); `inter`,
    `intra` (links: "10gbit,20us" or (bytes a second, seconds); one without limits); `exchange` (flat; nodes: exact inside a
    node; all-reduce: what others offer for dense steps); `bf16` (dense steps), or `dense_codec` (fp32, bf16, int8, int4: the
    same in methods with that option); `momentum_sync_every` (0: never; in methods with that option); `total_steps` (100,000,
    for the default schedules) or a published `recipe`; `backward_share` (2/3); `bucket_elements`; `threads` (1, of the
    recorded coding speed, or of `speeds`, as `laconic plan --probe --json` gives them); `shares_cores` (coding takes turns
    with backward); `ready` (the share of backward after which each bucket is ready; else in proportion); `slices` (8, of a
    long message).

    >>> import laconic.plan
    >>> cluster = dict(parameters=110_000_000, step_seconds=0.09, nodes=8, per_node=8, inter="1gbit,20us", intra="600gbit")
    >>> dense = laconic.plan.predict("adamw", exchange="all-reduce", bf16=True, **cluster)
    >>> coded = laconic.plan.predict("one-bit-adam", exchange="nodes", **cluster)
    >>> dense["seconds"] > 2 * coded["seconds"]
    True
    """
    return _core.plan_predict(*_prepared(optimizer, **options))


def break_even(optimizer: str, against: str = "bf16", **options: Any) -> float:
    """The rate between nodes, in bits a second, up to which `optimizer` takes no longer than AdamW with an all-reduce.

    `against`: bf16 or fp32; the rest as for `predict`. 0: at no rate; infinity: at any. Of `inter` only the latency counts.

    >>> import laconic.plan
    >>> rate = laconic.plan.break_even("one-bit-adam", parameters=110_000_000, step_seconds=0.3, nodes=8)
    >>> 1e9 < rate < 1e12
    True
    """
    if against not in ("bf16", "fp32"):
        raise InvalidArgument(f"against is `{against}`: bf16 or fp32")
    return 8 * _core.plan_break_even(*_prepared(optimizer, **options), against == "bf16")


def recipe(name: str) -> dict[str, Any]:
    """Volume and rounds of a published schedule: bert-base, bert-large, gpt2, imagenet.

    >>> import laconic.plan
    >>> round(laconic.plan.recipe("bert-large")["volume_reduction"], 3)
    0.846
    """
    return _core.plan_recipe(name)

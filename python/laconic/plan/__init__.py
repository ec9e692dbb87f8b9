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
    shards: int = 0,
    inter: str | tuple[float, float] | list[str | tuple[float, float]] | None = None,
    intra: str | tuple[float, float] | None = None,
    exchange: str = "flat",
    form: str = "two-round",
    bf16: bool = False,
    dense_codec: str = "",
    total_steps: int = 100_000,
    recipe: str = "",
    backward_share: float = 2 / 3,
    bucket_elements: int = 6_553_600,
    shares_cores: bool = False,
    threads: float = 1,
    ready: Sequence[float] = (),
    speeds: dict[str, float] | None = None,
    slices: int = 8,  # those of an exchange over torch.distributed
    options: dict[str, Any] | None = None,
    spread: float = 0,
    slowest: float = 1,
) -> tuple[_core.Scene, _core.Method, int, str]:
    scene = _core.Scene()
    scene.nodes, scene.per_node = nodes, per_node
    if isinstance(inter, list):
        scene.set_inter_of([_link(one) for one in inter])
    else:
        scene.set_inter(*_link(inter))
    scene.set_intra(*_link(intra))
    scene.set_work(parameters, step_seconds, backward_share, bucket_elements, slices, shares_cores)
    if shards:
        scene.shard(shards)
    scene.set_ready(list(ready))
    scene.set_stragglers(spread, slowest)
    for name, seconds in (speeds or {}).items():
        scene.set_speed(name, seconds)
    scene.code_faster(threads)
    own = {name: str(value) for name, value in (options or {}).items()}
    return scene, _core.Method(optimizer, exchange, form, bf16, dense_codec, own), total_steps, recipe


def _link(given: str | tuple[float, float] | None) -> tuple[float, float]:
    return (math.inf, 0.0) if given is None else link(given) if isinstance(given, str) else given


def predict(optimizer: str, **options: Any) -> dict[str, Any]:
    """The mean step of a run: seconds, what is exposed of the network, bytes that a rank sends, memory, shares of steps.

    `optimizer`: any of `laconic methods`; random signs have a `form`: two-round, single-round, count.
    Needed: `parameters`, `step_seconds` (forward and backward of one rank), `nodes`. Else: `per_node` (ranks, 1); `shards` (FSDP over
    so many ranks of a node, laconic between nodes: seconds, bytes and memory are then of a rank and its shard); `inter`,
    `intra` (links: "10gbit,20us" or (bytes per second, seconds); one without limits; `inter` also a list, one for each node); `exchange` (flat; nodes: exact inside a
    node; all-reduce: what others offer for dense steps); `bf16` (dense steps), or `dense_codec` (fp32, bf16, int8, int4: the
    same in methods with that option); `total_steps` (100,000, for the default schedules) or a published `recipe`;
    `backward_share` (2/3); `bucket_elements`; `threads` (1, of the recorded coding speed, or of `speeds`, as `laconic plan
    --probe --json` gives them); `shares_cores` (coding takes turns with backward);
    `ready` (the share of backward after which each bucket is ready; else in proportion); `slices` (8, of a long message);
    `options` (of the optimizer, as {"every": 50, "codec": "int4"}); stragglers: `spread` (the standard deviation of step times
    as a share of them) and `slowest` (how many times as long one rank always takes).

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

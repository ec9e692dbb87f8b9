"""Hugging Face's Accelerate: prepare() that hands over the gradients, and checkpoints that hold the state of every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import checkpoint, state
from ..errors import InvalidArgument
from ..optimizer import Optimizer
from .training import Meter, hand_over, inner, refuse_clipping

_FOLDER = "laconic"


class _Checkpoint:
    """What Accelerate loads last: by then the model and its own file of the optimizer are in place."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._folder: Path | None = None
        self._saving = False
        optimizer.register_state_dict_post_hook(self._name_the_folder)

    def saves(self, models: list, weights: list, folder: str) -> None:
        self._saving = True
        checkpoint.save(Path(folder) / _FOLDER, self._optimizer)

    def loads(self, models: list, folder: str) -> None:
        self._folder = Path(folder) / _FOLDER
        if not self._folder.is_dir():
            raise InvalidArgument(f"{self._folder} is not there, and it holds the optimizer's state: load what save_state wrote")

    def _name_the_folder(self, optimizer: Optimizer, _: dict) -> dict | None:
        """Accelerate's own file holds no state of rank 0 alone, which would not fit the other ranks."""
        if not self._saving:
            return None
        return state.elsewhere(optimizer, "each rank's is in the folder `laconic` of the checkpoint, use accelerator.load_state")

    def state_dict(self) -> dict[str, Any]:
        self._saving = False  # custom objects come last
        return {"laconic": _FOLDER}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        checkpoint.resume(self._folder, self._optimizer)


def prepare(accelerator: Any, *parts: Any) -> Any:
    """As accelerator.prepare(model, optimizer, ...): the optimizer of laconic among them takes over DDP's gradients.

    accelerator.save_state and load_state then hold the state of every rank, in a folder that all ranks see, and go on bit
    for bit. accelerator.clip_grad_norm_ is refused: max_grad_norm is the optimizer's. Returns what prepare returns.
    """
    prepared = accelerator.prepare(*parts)
    every = prepared if isinstance(prepared, tuple) else (prepared,)
    wrapped = [one for one in every if isinstance(getattr(one, "optimizer", None), Optimizer)]
    models = [one for one in every if hasattr(one, "named_modules")]
    if len(wrapped) != 1 or len(models) != 1:
        raise InvalidArgument(f"prepare was given {len(models)} models and {len(wrapped)} optimizers of laconic: give one of each")
    optimizer = inner(wrapped[0], "laconic.integrations.accelerate")
    hand_over(models[0], optimizer)
    checkpoint = _Checkpoint(optimizer)
    accelerator.register_save_state_pre_hook(checkpoint.saves)
    accelerator.register_load_state_pre_hook(checkpoint.loads)
    accelerator.register_for_checkpointing(checkpoint)

    def clip(parameters: Any, max_norm: float, norm_type: float = 2) -> None:
        refuse_clipping(max_norm, optimizer, "accelerator.clip_grad_norm_", "no such line")

    if optimizer._transport.size > 1:
        accelerator.clip_grad_norm_ = clip
    return prepared


def meter(optimizer: Any) -> Meter:
    """Of an optimizer: meter.take() has bits per parameter, rounds and the time of step(), for accelerator.log."""
    return Meter(inner(optimizer, "laconic.integrations.accelerate"))

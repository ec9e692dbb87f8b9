"""torch's devices as the core knows them, and their streams."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

from .errors import InvalidArgument

_LEGACY = 1  # CU_STREAM_LEGACY: torch's default stream has the handle 0


def name_of(device: torch.device) -> str | None:
    """The core's device in whose memory tensors of torch's device lie; None: there is none."""
    if device.type == "cuda":
        return f"cuda:{device.index or 0}"
    # A backend of torch's named "emulated" stands for a GPU in tests: its memory is the emulated device's.
    return device.type if device.type in ("cpu", "emulated") else None


def name_for(asked: str, device: torch.device) -> str:
    """Where the core works on tensors of torch's device: there; where that is the CPU, on what is asked for."""
    here = name_of(device)
    if here is None:
        raise InvalidArgument(
            f"tensors are on {device}: laconic has kernels for the CPU and for CUDA, and does not go through the CPU "
            "silently; move the model to one of them"
        )
    if here == "cpu":
        return asked
    if asked not in ("cpu", here) and (asked, device.type) != ("cuda", "cuda"):
        raise InvalidArgument(f"device={asked} and tensors on {device}: leave device out, it is the tensors'")
    return here


def current_stream(device: torch.device) -> int:
    """torch's current stream of this thread there, as the core takes it."""
    return getattr(torch, device.type).current_stream(device).cuda_stream or _LEGACY


class SideStream:
    """A stream of torch's for a thread beside the caller's. Tensors of the CPU need none."""

    def __init__(self) -> None:
        self._stream: Any = None

    @staticmethod
    def mark(device: torch.device) -> Any:
        """The caller's stream as it is now, for after()."""
        return None if device.type == "cpu" else getattr(torch, device.type).current_stream(device).record_event()

    @contextmanager
    def after(self, mark: Any, device: torch.device) -> Iterator[None]:
        """What is enqueued inside comes after the mark, and is done when this ends: the host waits for that."""
        if mark is None:
            yield
            return
        module = getattr(torch, device.type)
        if self._stream is None:
            self._stream = module.Stream(device)
        self._stream.wait_event(mark)
        with module.stream(self._stream):
            yield
        self._stream.synchronize()

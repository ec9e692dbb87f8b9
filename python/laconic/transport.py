"""The bytes of other ranks, over torch.distributed."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import itertools
import threading
import time
import weakref
from collections import Counter, deque
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from . import _core, environment
from .errors import Error, InvalidArgument, RankMissing

ALL_TO_ALL, ALL_GATHER, BROADCAST = range(3)

DEFAULT_TIMEOUT = timedelta(minutes=5)
_LOOK = timedelta(seconds=1)  # how long a wait goes on before it looks whether others gave up
_GRACE = 5.0  # seconds that the others have to report that they are alive

_ANEW = "make another optimizer, on all ranks, and go on from a checkpoint"

_opened: Counter = Counter()
_open: weakref.WeakSet = weakref.WeakSet()


# Gloo's threads take the interpreter's lock to drop a tensor; one that is late is killed by the interpreter's end, and
# takes the process with it.
@atexit.register
def _close_all() -> None:
    _core.close_optimizers()
    for group in list(_open):
        group.close()


def _interruptible(work: Callable[[], Any]) -> Any:
    """What `work` returns; signals are handled while it runs, on a thread of its own."""
    outcome: concurrent.futures.Future = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()


class Group:
    """One rank's end of a process group of laconic's own, so that the user's collectives cannot come between.

    Every rank posts the same exchanges in the same order; one thread at a time. Construction is collective over the
    ranks of `parent`.
    """

    def __init__(self, ranks: list[int], timeout: timedelta, backend: str = "gloo", label: str = "") -> None:
        self.ranks = ranks
        self.rank = ranks.index(dist.get_rank())
        self.size = len(ranks)
        self.host = environment.node()
        self.timeout = timeout
        self.backend = backend
        # Groups are made in the same order by all of their ranks, so this names each for good: names of
        # torch.distributed.new_group come again after a group was destroyed, and with them its dead addresses.
        key = (label, tuple(ranks))
        _opened[key] += 1
        self.name = f"laconic/{environment.attempt()}/{label}{'-'.join(map(str, ranks))}/{_opened[key]}"
        self._store = dist.PrefixStore(self.name, c10d._get_default_store())
        self._store_is_silent = False
        self._group = self._connect()
        self._sent: dict[tuple[int, int], torch.Tensor] = {}
        self._free: dict[int, list[torch.Tensor]] = {}
        self._flight: deque = deque()
        self._arrived: torch.Tensor | None = None
        self._splits = itertools.count()
        self._closed = threading.Event()
        self._interrupts: list[BaseException] = []
        _open.add(self)

    def _connect(self):
        if self.backend == "gloo":
            try:
                return _interruptible(self._connect_gloo)
            except RuntimeError as error:
                raise self._diagnosis(error) from error
        return dist.new_group(self.ranks, self.timeout, self.backend, use_local_synchronization=True)

    def _connect_gloo(self) -> Any:
        """Until all are connected: one that is refused right afterwards closes, and others would wait for it until the timeout."""
        group = dist.ProcessGroupGloo(self._store, self.rank, self.size, self.timeout)
        group.barrier().wait()
        return group

    # What the core calls.

    def post(self, kind: int, root: int, address: int, size: int, into: int = 0) -> None:
        """`into`: where the blocks of an all-gather are to lie, the own one among them already; 0: anywhere."""
        self.check()
        given = self._view(address, size)
        if kind == BROADCAST:
            out = given if self.rank == root else self._take(size)
            work = self._group.broadcast([out], _root_of(root)) if size else None
            self._flight.append((work, out, None, self.rank == root, out.data_ptr(), 0))
            return
        if self.size == 2 and size:
            self._flight.append(self._post_to_other(kind, address, size, into))
            return
        out = self._take(size if kind == ALL_TO_ALL else size * self.size)
        if kind == ALL_GATHER and size:  # in one hop: Gloo's own goes round a ring, copying
            given = self._take(out.numel()).view(self.size, size).copy_(given).view(-1)
        work = self._group.alltoall_base(out, given, [], [], c10d.AllToAllOptions()) if size else None
        copy = given if kind == ALL_GATHER and size else None
        self._flight.append((work, out, copy, False, out.data_ptr(), 0))

    def _post_to_other(self, kind: int, address: int, size: int, into: int) -> tuple:
        """Of two ranks: only what the other one gets is moved; the own block stays where the caller wrote it."""
        block = size if kind == ALL_GATHER else size // 2
        other = 1 - self.rank
        sent = address if kind == ALL_GATHER else address + other * block
        own = address if kind == ALL_GATHER else address + self.rank * block
        out = self._view(into + other * block, block) if into else self._take(block)
        splits = [block, 0] if other == 0 else [0, block]
        work = self._group.alltoall_base(out, self._view(sent, block), splits, splits, c10d.AllToAllOptions())
        return work, out, None, into != 0, out.data_ptr() - other * block, own

    def arrive(self) -> tuple[int, int]:
        """Where rank 0's block would lie, each block after the one before; and where the own one lies, 0 if there."""
        work, out, copy, own, first, own_block = self._flight.popleft()
        if work is not None:
            self._wait(work)
        self._give_back(copy)
        self._give_back(self._arrived)
        self._arrived = None if own else out
        return first, own_block

    def split(self, color: int) -> Group:
        colors = self.gather(torch.tensor([color]))[:, 0].tolist()
        ranks = [rank for rank, other in zip(self.ranks, colors) if other == color]
        part = Group(ranks, self.timeout, self.backend, f"{self.name}/split{next(self._splits)}/")
        part._interrupts = self._interrupts
        return part

    def interrupt(self, error: BaseException) -> None:
        """Whoever waits in an exchange raises this; the group is unusable afterwards."""
        self._interrupts.append(error)

    def check(self) -> None:
        if self._interrupts:
            what = type(self._interrupts[0]).__name__
            raise Error("transport", f"{what} came in the middle of an exchange: {_ANEW}")
        if self._group is None:
            raise Error("transport", f"the group of this optimizer is closed: {_ANEW}")

    # What the package itself sends to the others.

    def gather(self, mine: torch.Tensor) -> torch.Tensor:
        """Every rank's row; `mine` has the same shape everywhere."""
        self.check()
        out = mine.new_empty((self.size, *mine.shape))
        flat = mine.contiguous().reshape(-1).view(torch.uint8)
        self._wait(self._group._allgather_base(out.view(-1).view(torch.uint8), flat, c10d.AllgatherOptions()))
        return out

    def gather_bytes(self, mine: bytes) -> list[bytes]:
        """Every rank's, of any length."""
        lengths = self.gather(torch.tensor([len(mine)]))[:, 0].tolist()
        padded = torch.zeros(max([1, *lengths]), dtype=torch.uint8)
        if mine:
            padded[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        return [bytes(row[:length].tolist()) for row, length in zip(self.gather(padded), lengths)]

    def close(self) -> None:
        """Lets go of the process group; whoever waits in it gives up."""
        self._closed.set()
        waits = self._flight or self._interrupts  # then its destructor would wait for the others
        if waits and hasattr(self._group, "abort"):
            self._group.abort()
        self._flight.clear()
        self._group = None

    def _view(self, address: int, size: int) -> torch.Tensor:
        """The caller's memory as a tensor; messages are written to few places, again and again."""
        known = self._sent.get((address, size))
        if known is None:
            if len(self._sent) >= 1024:
                self._sent.clear()
            memory = (ctypes.c_uint8 * size).from_address(address) if size else bytearray(1)
            known = self._sent[address, size] = torch.frombuffer(memory, dtype=torch.uint8)[:size]
        return known

    def _take(self, size: int) -> torch.Tensor:
        free = self._free.get(size)
        return free.pop() if free else torch.empty(size, dtype=torch.uint8)

    def _give_back(self, tensor: torch.Tensor | None) -> None:
        if tensor is not None:
            self._free.setdefault(tensor.numel(), []).append(tensor)

    def _wait(self, work) -> None:
        try:
            self._wait_until(work, time.monotonic() + self.timeout.total_seconds())
        except (KeyboardInterrupt, SystemExit) as error:  # raised by the handler of a signal
            self.interrupt(error)
            raise

    def _wait_until(self, work, deadline: float) -> None:
        while True:
            over = work.is_completed()  # not afterwards: it may be over, and well, right after a wait gave up
            try:
                work.wait(_LOOK)
                return
            except RuntimeError as error:
                if self._interrupts:
                    raise self._interrupts[0] from None
                if over or time.monotonic() > deadline or self._others_gave_up():
                    raise self._diagnosis(error) from error
                if self._closed.is_set():
                    raise Error("transport", "the optimizer was dropped in the middle of an exchange") from None

    def _others_gave_up(self) -> bool:
        gave_up: list[bool] = []

        def look() -> None:
            try:
                gave_up.append(self._store.check(["failed"]))
            except RuntimeError:
                gave_up.append(True)

        self._ask(look)
        return bool(gave_up) and gave_up[0]

    def _ask(self, work) -> None:
        """Talks to the store, which never answers where the link to it was cut: not again then."""
        if self._store_is_silent:
            return
        asking = threading.Thread(target=work, daemon=True)
        asking.start()
        asking.join(_GRACE + 1)
        self._store_is_silent = asking.is_alive()

    def _diagnosis(self, error: RuntimeError) -> Error:
        """Who is missing: every rank that still lives notes it in the store when an exchange fails."""
        missing = {rank for rank in range(self.size) if rank != self.rank}
        until = time.monotonic() + _GRACE
        answered: list[bool] = []

        def roll_call() -> None:
            with contextlib.suppress(RuntimeError):
                self._store.set("failed", "1")
                self._store.set(f"alive/{self.rank}", "1")
                while missing and time.monotonic() < until:
                    missing.difference_update([rank for rank in missing if self._store.check([f"alive/{rank}"])])
                    if missing:
                        time.sleep(0.05)
                answered.append(True)

        self._ask(roll_call)
        # The store went with the process that held it (rank 0, unless torchrun's agent does) or with the link to it.
        named = sorted(missing) if answered or self.rank == 0 else [0]
        first = str(error).splitlines()[0]
        if not named:
            return Error("transport", f"an exchange failed although every rank is there: {first}")
        ranks = " and ".join(str(self.ranks[rank]) for rank in named)
        noun = "rank" if len(named) == 1 else "ranks"
        took = f"died, left or did not arrive within {self.timeout.total_seconds():g} s"
        return RankMissing(f"{noun} {ranks} {took}: see the end of its output ({first})")


def _root_of(root: int):
    options = c10d.BroadcastOptions()
    options.rootRank, options.rootTensor = root, 0
    return options


def cpu_backend(parent) -> str:
    """The backend that moves bytes of the CPU's memory: the group's own, or Gloo beside one that cannot."""
    try:
        name = parent._get_backend(torch.device("cpu")).name()
    except RuntimeError:
        name = "gloo"
    return name.lower()


def _timeout_of(parent) -> timedelta:
    try:
        return parent._get_backend(torch.device("cpu")).options._timeout
    except (RuntimeError, AttributeError):
        return DEFAULT_TIMEOUT


def connect(process_group=None, timeout: timedelta | None = None) -> tuple[_core.Transport, Group | None]:
    """The transport for a process group (the default one when None), and its Python side; a world of one has none.

    Collective over the ranks of the group.
    """
    if not dist.is_available() or not dist.is_initialized():
        if process_group is not None:
            raise InvalidArgument("process_group was given and torch.distributed is not initialised")
        return _core.alone(), None
    parent = process_group if process_group is not None else dist.group.WORLD
    try:
        ranks = dist.get_process_group_ranks(parent)
    except (KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"process_group is no group of this process ({error}): make it with new_group") from None
    if dist.get_rank() not in ranks:
        text = f"rank {dist.get_rank()} is not in process_group, which has ranks {ranks}"
        raise InvalidArgument(f"{text}: make the optimizer on those ranks only")
    if len(ranks) == 1:
        return _core.alone(), None
    group = Group(list(ranks), timeout or _timeout_of(parent), cpu_backend(parent))
    return _core.PythonTransport(group), group

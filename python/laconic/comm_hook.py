"""Comm hooks of DistributedDataParallel for those who keep their own optimizer: gradients become a coded mean."""

import warnings
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import _core, agreement, arguments, transport
from .accelerator import SideStream
from .bucket_means import BucketMeans
from .errors import InvalidArgument

_SQUARES = {"exp_avg_sq", "square_avg", "sum"}  # torch's names of what squared gradients add up to

_signs: "weakref.WeakSet[CodecState]" = weakref.WeakSet()  # states of the codec `sign` whose optimizer is not known yet
_watching = False


class CodecState:
    """What laconic.codec_hook remembers: residuals of each parameter. One for each DistributedDataParallel.

        ddp.register_comm_hook(laconic.CodecState(codec="int4", feedback="ema"), laconic.codec_hook)

    Construction is collective over `process_group`, with the same arguments on all ranks. Each rank saves and loads its
    own state_dict(), between any two steps, and goes on with the same bits.

    Args:
        codec: fp32 or bf16 (exact sums), int8, int4, int2 or sign (so many bits per element), or top-k (the largest
            elements); sign does not learn under optimizers that square the gradient, such as Adam
        codec_down: of the mean on its way back; None: int8 beside top-k, else codec
        feedback: what becomes of what a lossy codec left out: full, ema, decay or none
        feedback_beta: feedback = ema: weight of the residual before
        feedback_reset: feedback = ema begins anew after so many exchanges; 0: never
        feedback_decay: feedback = decay: factor of the residual
        quant_block: int8, int4, int2: elements per scale, a multiple of 64
        top_k: top-k: elements of every 4096 that are sent
        scale_block: sign: elements per scale, a multiple of 64; 0: one scale per chunk
        scale_norm: sign: l1 or l2
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine; None:
            coded between all ranks
        device: where gradients of the CPU are averaged: cpu, or emulated, the GPU's kernels on the CPU, for tests; those of a
            GPU are averaged there
        timeout: a timedelta; None: the process group's

    >>> import laconic
    >>> laconic.CodecState(codec="int4", feedback="ema").describe()
    'int4 mean of gradients with ema feedback, alone'
    """

    def __init__(
        self,
        codec: str = "int4",
        *,
        codec_down: str | None = None,
        feedback: str = "ema",
        feedback_beta: float = 0.8,
        feedback_reset: int = 1024,
        feedback_decay: float = 0.95,
        quant_block: int = 256,
        top_k: int = 128,
        scale_block: int = 4096,
        scale_norm: str = "l2",
        process_group: Any = None,
        ranks_per_node: int | str | None = None,
        device: str = "cpu",
        timeout: timedelta | None = None,
    ) -> None:
        options = dict(
            codec_down=codec_down,
            feedback=feedback,
            feedback_beta=feedback_beta,
            feedback_reset=feedback_reset,
            feedback_decay=feedback_decay,
            quant_block=quant_block,
            top_k=top_k,
            scale_block=scale_block,
            scale_norm=scale_norm,
        )
        self._options: dict[str, Any] = {"codec": codec} | {n: arguments.plain(n, v) for n, v in options.items()}
        of_mean = {n: v for n, v in self._options.items() if n != "codec"}
        of_mean["ranks_per_node"] = arguments.nodes(ranks_per_node)
        over, self._group = transport.connect(process_group, timeout)
        self._means = BucketMeans(over, self._group, codec, of_mean, device)
        try:
            self._runs = self._check(ranks_per_node)
        except BaseException:
            _close(None, self._group)
            raise
        # A parameter's place is the order in which DDP first gave it, the same on all ranks and in every run.
        self._places: dict[int, int] = {}
        self._complete = False  # DDP has given all of its parameters
        # One thread, so that buckets are exchanged in the order in which DDP gives them, which is the same everywhere.
        self._queue = ThreadPoolExecutor(1, thread_name_prefix="laconic")
        self._closer = weakref.finalize(self, _close, self._queue, self._group)
        self._backward = -1
        self._given: set[int] = set()  # indices of the buckets of this backward pass
        self._outcomes: list[Future] = []
        if codec == "sign":
            _watch_steps(self)

    def _check(self, ranks_per_node: int | str | None) -> str:
        """Ranks compare what they were given before any of them refuses it. Returns what runs."""
        codec = self._options["codec"]
        lines = [f"{name}={value}" for name, value in (*self._options.items(), ("ranks_per_node", ranks_per_node))]
        agreement.agree(self._group, lines, "make the same state on every rank")
        codecs = _core.gradient_codecs()
        if codec not in codecs:
            raise InvalidArgument(f"no codec `{codec}` of gradients: {', '.join(codecs)}")
        runs = self._means.make(0).describe()
        where = "alone" if self._group is None else f"{self._group.size} ranks over {self._group.backend}"
        where += "" if ranks_per_node is None else f", {runs}"
        if not _core.Mean(codec, 1, _core.alone()).state():  # it leaves nothing out
            return f"{codec} mean of gradients, {where}"
        feedback = self._options["feedback"]
        return f"{self._named(codec, 'without' if feedback == 'none' else f'with {feedback}')}, {where}"

    def _named(self, codec: str, fed_back: str) -> str:
        return f"{codec} mean of gradients {fed_back} feedback"

    def describe(self) -> str:
        """What really runs: codec, feedback, ranks; the device from the first exchange on."""
        return self._runs + self._queue.submit(lambda: self._means.where).result()

    @property
    def bad_blocks(self) -> int:
        """Blocks in which this rank's gradient was not finite and counted as 0."""
        return self._queue.submit(lambda: self._means.bad_blocks).result()

    # What happens to a bucket.

    def _submit(self, bucket: dist.GradBucket) -> torch.futures.Future:
        self._watch_backward()
        index = bucket.index()
        again = self._backward >= 0 and index in self._given  # a second module in one backward pass
        self._given.add(index)
        buffer = bucket.buffer()
        mark = SideStream.mark(buffer.device)
        outcome = self._queue.submit(self._reduce, bucket.parameters(), buffer, mark, bucket.is_last(), again)
        self._outcomes.append(outcome)
        done: torch.futures.Future = torch.futures.Future()
        outcome.add_done_callback(done.set_result)
        return done.then(lambda ended: ended.value().result())

    def _watch_backward(self) -> None:
        """Before DDP takes the results, which would lose the type of errors, backward waits for them here."""
        backward = torch._C._current_graph_task_id()  # -1 on ranks that have joined: there is none
        if backward != self._backward or backward < 0:
            self._outcomes, self._given = [], set()
            if backward >= 0:
                torch.autograd.Variable._execution_engine.queue_callback(self._raise_errors)
        self._backward = backward

    def _raise_errors(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            outcome.result()

    def _reduce(self, parameters: list[torch.Tensor], buffer: torch.Tensor, mark: Any, last: bool, again: bool) -> torch.Tensor:
        self._check_bucket(parameters, again)
        places = [self._places.setdefault(id(parameter), len(self._places)) for parameter in parameters]
        sizes = [parameter.numel() for parameter in parameters]
        self._means.reduce(places, sizes, buffer, mark)
        self._complete = self._complete or last
        return buffer

    def _check_bucket(self, parameters: list[torch.Tensor], again: bool) -> None:
        if again or self._complete and any(id(parameter) not in self._places for parameter in parameters):
            raise InvalidArgument(
                f"one {type(self).__name__} serves two modules: its residuals belong to the parameters of the first; "
                "make one state for each DistributedDataParallel"
            )

    # State.

    def state_dict(self) -> dict[str, Any]:
        """This rank's residuals, by parameter in the order in which DDP gives them, and how far the means have come."""
        kept = self._queue.submit(self._means.state).result()
        return {"rank": self._means.rank, "ranks": self._means.ranks, "options": dict(self._options), **kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with what this rank's state_dict() held, bit for bit; all ranks load theirs."""
        there, here = (state_dict["rank"], state_dict["ranks"]), (self._means.rank, self._means.ranks)
        if there != here:
            raise InvalidArgument(
                f"these residuals are of rank {there[0]} of {there[1]}, here is rank {here[0]} of {here[1]}: each rank loads "
                "its own; with another number of ranks start without"
            )
        for name, value in state_dict.get("options", {}).items():
            if value != self._options.get(name):
                raise InvalidArgument(
                    f"{name} is {value} in the state and {self._options.get(name)} here: resuming would change results"
                )
        self._queue.submit(self._means.load, state_dict).result()


class OneBitState(CodecState):
    """What laconic.one_bit_hook remembers: laconic.CodecState of the codec sign with full feedback.

    >>> import laconic
    >>> laconic.OneBitState().describe()
    'one-bit mean of gradients with error feedback, alone'
    """

    def __init__(
        self,
        process_group: Any = None,
        *,
        scale_block: int = 4096,
        scale_norm: str = "l2",
        ranks_per_node: int | str | None = None,
        device: str = "cpu",
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(
            "sign",
            feedback="full",
            scale_block=scale_block,
            scale_norm=scale_norm,
            process_group=process_group,
            ranks_per_node=ranks_per_node,
            device=device,
            timeout=timeout,
        )

    def _named(self, codec: str, fed_back: str) -> str:
        return "one-bit mean of gradients with error feedback"


def _close(queue: ThreadPoolExecutor | None, group: transport.Group | None) -> None:
    if queue is not None:
        queue.shutdown(wait=False)
    if group is not None:
        group.close()


def _watch_steps(state: CodecState) -> None:
    global _watching
    if not _watching:
        register_optimizer_step_post_hook(_warn_of_squares)
    _watching = True
    _signs.add(state)


def _warn_of_squares(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """After the first step with gradients of the codec `sign`."""
    for state in list(_signs):
        every = (p for group in optimizer.param_groups for p in group["params"] if id(p) in state._places)
        mine = next(every, None)
        if mine is None:
            continue
        _signs.discard(state)
        if not _SQUARES.isdisjoint(optimizer.state.get(mine, ())):
            warnings.warn(
                f"laconic: {type(optimizer).__name__} squares gradients, and the codec `sign` gives each the size of its "
                "whole block: it does not learn from them. Use codec='int4', SGD with momentum, or an optimizer of laconic",
                RuntimeWarning,
                stacklevel=3,
            )


# DDP looks at the annotations of hooks, so in this file they are types, not text.
def codec_hook(state: CodecState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A comm hook for those who keep their own optimizer: gradients become their coded mean with error feedback.

        ddp.register_comm_hook(laconic.CodecState(codec="int4", feedback="ema"), laconic.codec_hook)

    >>> import laconic
    >>> callable(laconic.codec_hook)
    True
    """
    return state._submit(bucket)


def one_bit_hook(state: OneBitState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """laconic.codec_hook with one bit per element.

        ddp.register_comm_hook(laconic.OneBitState(), laconic.one_bit_hook)

    >>> import laconic
    >>> callable(laconic.one_bit_hook)
    True
    """
    return state._submit(bucket)

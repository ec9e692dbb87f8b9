"""A GPU for tests of host code: tensors on torch's device "emulated" that live in memory of the host.

They refuse what a GPU's refuse (other devices' tensors, numpy) and note what makes a host wait for its GPU. laconic takes
the device for its emulated one, so the core runs the GPU's kernels on their memory, as on a GPU's: in step with streams.
"""

from contextlib import contextmanager

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    raise ImportError("torch before 2.10 has no backends in Python")

DEVICE = torch.device("privateuseone:0")  # until it has its name
waits: list[str] = []  # operations for which a host waits

_MEETS = {"_local_scalar_dense", "equal", "nonzero", "is_nonzero", "masked_select", "unique_dim", "_unique2"}


class Stream:
    """torch's default stream there. The core does at once what it enqueues on it, as mocks do."""

    cuda_stream = 0  # as of CUDA's default stream

    def __init__(self, device=None):
        pass

    def record_event(self):
        return object()

    def wait_event(self, event):
        assert event is not None

    def synchronize(self):
        waits.append("synchronize")


class _Module(backend_registration._DummyBackendModule):
    Stream = Stream

    def current_stream(self, device=None):
        return Stream()

    @contextmanager
    def stream(self, stream):
        yield

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]


class Mock(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype, device=DEVICE
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Mock({self.inner})"

    def data_ptr(self):
        return self.inner.data_ptr()

    @property
    def data(self):
        return Mock(self.inner)

    @data.setter
    def data(self, other):
        self.inner = other.inner

    def numpy(self, *_, **__):
        raise TypeError(f"can't convert {DEVICE} tensor to numpy: use Tensor.cpu()")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = op._schema.name.removeprefix("aten::")
        to_cpu = name == "_to_copy" and torch.device(kwargs.get("device") or DEVICE).type == "cpu"
        _look(name, to_cpu, args, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        out = op(*_inner(args), **_inner(kwargs))
        if to_cpu:
            return out
        if op._schema.is_mutable:  # gives back what was given
            given = {id(leaf.inner): leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Mock)}
            return tree_map(lambda leaf: given.get(id(leaf), leaf), out)
        return tree_map(lambda leaf: Mock(leaf) if isinstance(leaf, torch.Tensor) else leaf, out)


def _inner(values):
    return tree_map(lambda leaf: leaf.inner if isinstance(leaf, Mock) else leaf, values)


def _look(name, to_cpu, args, kwargs):
    """Notes a wait, refuses tensors of several devices."""
    crosses = to_cpu or name == "copy_" and not all(isinstance(one, Mock) for one in args[:2])
    if name in _MEETS or crosses and not kwargs.get("non_blocking") and not (name == "copy_" and len(args) > 2 and args[2]):
        waits.append(name)
    if crosses:
        return
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Mock) and leaf.dim() > 0:
            raise RuntimeError(f"{name}: expected all tensors to be on {DEVICE}, found one on {leaf.device}")


def _install():
    global DEVICE
    backend_registration._setup_privateuseone_for_python_backend("emulated", backend_module=_Module())
    DEVICE = torch.device("emulated:0")

    @torch.library.impl("aten::empty.memory_format", "privateuseone")
    def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        return Mock(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))

    @torch.library.impl("aten::empty_strided", "privateuseone")
    def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
        return Mock(torch.empty_strided(size, stride, dtype=dtype))


_install()

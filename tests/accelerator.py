"""An accelerator that is not there: it computes on the processor, and behaves as a GPU does.

Tensors on it have the device `paper`. Operations refuse to mix it with tensors of the
processor, as those of a GPU do. `Watch` counts operations, and what makes the host wait for the
device: values that are read, shapes that depend on values, copies to the host. Copies from the host
that are not asynchronous wait too, and are counted apart.

It is for processes of its own: torch takes in one such device, before the first backward pass, and
keeps it.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from hf_mixers.models import stack

NAME = "paper"
DEVICE = torch.device("privateuseone", 0)

# no kernel runs for these, though they are no views
_WITHOUT_LAUNCH = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("_unsafe_view", "lift_fresh", "detach", "alias", "is_pinned", "record_stream"),
    *("sym_size", "sym_stride", "sym_numel", "is_same_size", "set_", "resize_"),
}
# the host waits for a value, or for the shape of a result
_WAITING = {
    *("_local_scalar_dense", "nonzero", "nonzero_numpy", "masked_select", "equal", "is_nonzero"),
    *("_unique2", "unique_dim", "unique_consecutive", "bincount", "_linalg_check_errors"),
}
_COPIES = {"_to_copy", "copy_", "copy", "_copy_from"}


class OnDevice(Tensor):
    """A tensor of the processor that says it is on the device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, requires_grad: bool = False):
        self = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
            requires_grad=requires_grad,
        )
        self.inner = inner
        return self

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.inner!r})"

    def tolist(self) -> Any:
        # torch has none for classes of tensors; it copies to the host as well
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {}, Counter())


class Watch(TorchDispatchMode):
    """Counts what happens on the device; `with Watch() as watch: ...`.

    `operations` are kernels by name; `waits` what the host waited for, `uploads` copies to the
    device that are not asynchronous.
    """

    active: "list[Watch]" = []

    def __init__(self):
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()

    @property
    def num_operations(self) -> int:
        return self.operations.total()

    @property
    def num_waits(self) -> int:
        return self.waits.total()

    def __enter__(self):
        register()
        Watch.active.append(self)
        stack.PLAIN_WEIGHTS.add(OnDevice)
        return super().__enter__()

    def __exit__(self, *error):
        Watch.active.remove(self)
        if not Watch.active:
            stack.PLAIN_WEIGHTS.discard(OnDevice)
        return super().__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {}, self)


def register() -> None:
    """Make the device known to torch; to be called before any backward pass."""
    if hasattr(torch, NAME):
        return

    class Hooks(torch._C._acc.PrivateUse1Hooks):
        def is_available(self) -> bool:
            return bool(Watch.active)

        def has_primary_context(self, dev_id) -> bool:
            return True

        def is_built(self) -> bool:
            return True

    class Module(backend_registration._DummyBackendModule):
        def is_available(self) -> bool:
            return bool(Watch.active)

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.bfloat16, torch.float16]

    backend_registration._setup_privateuseone_for_python_backend(
        rename=NAME,
        backend_module=Module(),
        hook=Hooks(),
    )
    _make_literals_known()


def _make_literals_known() -> None:
    """Tensors of numbers in the program, which torch makes past all dispatch."""
    plain, plain_new = torch.tensor, Tensor.new_tensor

    def tensor(data, *, device=None, **settings):
        if device is None or torch.device(device).type != NAME:
            return plain(data, device=device, **settings)
        for watch in Watch.active:
            watch.uploads["tensor"] += 1
        return OnDevice(plain(data, **settings))

    def new_tensor(self, data, *, dtype=None, device=None, **settings):
        if not isinstance(self, OnDevice):
            return plain_new(self, data, dtype=dtype, device=device, **settings)
        return tensor(data, dtype=dtype or self.dtype, device=device or DEVICE, **settings)

    torch.tensor, Tensor.new_tensor = tensor, new_tensor


def run(function, args, kwargs, counts: Watch | Counter):
    """Call an operation on the processor, and count it."""
    name = function._schema.name.removeprefix("aten::")
    wrapped: dict[int, OnDevice] = {}
    on_host: list[Tensor] = []

    def unwrap(value: Any) -> Any:
        if isinstance(value, OnDevice):
            wrapped[id(value.inner)] = value
            return value.inner
        if isinstance(value, Tensor):
            on_host.append(value)
        return value

    inner_args, inner_kwargs = tree_map(unwrap, (args, kwargs))
    target = kwargs.get("device")
    target = None if target is None else torch.device(target)
    goes_to_device = target is not None and target.type == NAME
    if not wrapped and not goes_to_device:
        return function(*args, **kwargs)
    if target is not None:
        inner_kwargs["device"] = torch.device("cpu")
    stays = target is None or goes_to_device
    if name not in _COPIES and name != "index":
        _refuse_mixture(name, on_host, bool(wrapped))
    if isinstance(counts, Watch):
        _count(counts, name, function, args, kwargs, on_host, bool(wrapped), stays)
    result = function(*inner_args, **inner_kwargs)
    if name == "copy_" and not isinstance(args[0], OnDevice):
        return args[0]

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        found = wrapped.get(id(value))
        if found is not None:
            return found
        return OnDevice(value) if stays else value

    return tree_map(wrap, result)


def _refuse_mixture(name: str, on_host: list[Tensor], is_on_device: bool) -> None:
    # as torch does: a number of the processor goes along as an argument
    if is_on_device and any(tensor.dim() > 0 for tensor in on_host):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {name} got some on {NAME} and"
            " some on cpu."
        )


def _count(counts: Watch, name, function, args, kwargs, on_host, is_on_device, stays) -> None:
    comes_back = (is_on_device and not stays) or (
        name == "copy_" and not isinstance(args[0], OnDevice)
    )
    if comes_back or name in _WAITING:
        counts.waits[name] += 1
    elif name in ("index", "index_put", "index_put_") and _has_mask(args[1]):
        counts.waits[f"{name} by a mask"] += 1
    elif name == "repeat_interleave" and kwargs.get("output_size") is None:
        counts.waits[name] += 1
    elif _comes_from_host(name, args, kwargs, on_host, is_on_device):
        counts.uploads[name] += 1
    returns = function._schema.returns
    alias = returns[0].alias_info if returns else None
    is_view = alias is not None and not alias.is_write
    if not is_view and name not in _WITHOUT_LAUNCH:
        counts.operations[name] += 1


def _comes_from_host(name: str, args, kwargs, on_host, is_on_device) -> bool:
    """Whether the host waits until its numbers are on the device."""
    if name == "index":
        return bool(on_host)
    given = args[2] if name == "copy_" and len(args) > 2 else False
    is_asynchronous = kwargs.get("non_blocking", given)
    return name in _COPIES and not is_asynchronous and (bool(on_host) or not is_on_device)


def _has_mask(indices) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def put(value: Any) -> Any:
    """Tensors, modules and batches on the device."""
    register()
    if isinstance(value, nn.Module):
        with Watch():
            return value.to(DEVICE)
    return tree_map(lambda x: OnDevice(x) if isinstance(x, Tensor) else x, value)


def fetch(value: Any) -> Any:
    """Tensors of the device, on the processor."""
    return tree_map(lambda x: x.inner if isinstance(x, OnDevice) else x, value)

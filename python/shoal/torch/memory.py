"""The memory of a model's parameters while it computes, and the way of gradients to the shared memory."""

from __future__ import annotations

import collections
import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Protocol

import torch

from shoal._work import Array
from shoal.errors import ProgramError


def tensor_of(array: Array) -> Any:
    """A tensor on an array's memory; PyTorch warns of arrays that cannot be written, as those of parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


def tensors_of_sets(sets: Sequence[Mapping[str, Array]]) -> list[dict[str, Any]]:
    """Returns tensors on the arrays of several sets."""
    return [{name: tensor_of(array) for name, array in arrays.items()} for arrays in sets]


def values_of(gradient: Any) -> Any:
    """Returns a gradient as a dense tensor without the graph that backward(create_graph=True) leaves at it."""
    gradient = gradient.detach()
    return gradient.to_dense() if gradient.is_sparse else gradient


Sets = Sequence[Mapping[str, Any]]


class Memory:
    """Parameters on the CPU: they are views of the shared memory, and a gradient is copied once.

    copy_of: returns the arrays of a parameter set in memory that the program may write.
    """

    is_shared = True

    def __init__(
        self, parameters: Mapping[str, Any], values: Sets, contributions: Sets, copy_of: Callable[[int], Any]
    ) -> None:
        self._parameters = parameters
        self._values = values
        self._contributions = contributions
        self._copy_of = copy_of
        self._copy: dict[str, Any] = {}  # The values that the parameters have, if the program may write them.
        self._pairs = [[(parameter, both[name]) for name, parameter in parameters.items()] for both in values]
        self._addresses = [{name: both[name].data_ptr() for name in parameters} for both in values]
        self._loaded: dict[str, int] = {}  # The addresses that load() has given.
        self._versions: dict[str, int] = {}
        self._settled: list[str] = []

    def load(self, number: int, may_be_written: bool = False) -> None:
        """Gives the parameters the values of a parameter set.

        may_be_written: written() finds writes of the program; without it they are a SIGSEGV on the CPU.
        """
        self._copy = self._writable(number) if may_be_written else {}
        if self._copy:
            for name, parameter in self._parameters.items():
                parameter.data = self._copy[name]
            self._loaded = {name: tensor.data_ptr() for name, tensor in self._copy.items()}
            self._versions = {name: parameter._version for name, parameter in self._parameters.items()}
        else:
            for parameter, value in self._pairs[number]:
                parameter.data = value
            self._loaded = self._addresses[number]

    def _writable(self, number: int) -> dict[str, Any]:
        try:
            arrays = self._copy_of(number)
        except OSError:  # There is no address space for them.
            return {}
        return {name: tensor_of(arrays[name]) for name in self._parameters}

    def store(self, name: str, tensor: Any, number: int) -> None:
        """Begins to copy a contribution into a contribution set."""
        self._contributions[number][name].copy_(values_of(tensor))
        self._settled.append(name)

    def settled(self) -> list[str]:
        """Returns the contributions whose copies have ended since the last call."""
        result, self._settled = self._settled, []
        return result

    def finish(self) -> list[str]:
        """The same, after it has waited for all copies."""
        return self.settled()

    def has_moved(self, name: str) -> bool:
        """Returns whether a parameter's memory is no longer what load() gave it."""
        return bool(self._parameters[name].data_ptr() != self._loaded[name])

    def written(self, number: Optional[int] = None, compares: bool = False) -> Optional[str]:
        """Returns a parameter into which the program has written since load(). On the CPU only a copy can be written.

        number: the parameter set, if it still has the values of load(); those of parameters that have moved are
            compared with it.
        compares: compare all of them. A write through parameter.data leaves no other trace, but it takes long.
        """
        for name, copy in self._copy.items():
            if self._parameters[name]._version != self._versions[name]:
                return name
            if compares and number is not None and not _is_same(copy, self._values[number][name]):
                return name
        return None

    def release(self) -> None:
        """Gives the parameters memory of their own, which the program may write."""
        self._copy = {}
        for parameter in self._parameters.values():
            parameter.data = parameter.data.clone()


class Event(Protocol):
    """The end of a copy."""

    def query(self) -> bool: ...

    def synchronize(self) -> None: ...


class Streams(Protocol):
    """The operations of a device that has memory of its own."""

    def upload(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Copies each second tensor, on the host, into the first; later work on the device sees the result."""

    def download(self, target: Any, source: Any) -> Event:
        """Begins a copy into the host's memory, after the work that computes `source`."""

    def register(self, tensors: Sequence[Any], is_read_only: bool) -> None:
        """Makes copies to and from these tensors on the host fast, where possible."""


class DeviceMemory(Memory):
    """Parameters on a device: they are copied there, and gradients come back while the backward pass continues.

    A contribution is settled, and may be sent, only when the event after its copy has occurred.
    """

    is_shared = False

    def __init__(self, parameters: Mapping[str, Any], values: Sets, contributions: Sets, streams: Streams) -> None:
        super().__init__(parameters, values, contributions, lambda number: {})
        self._streams = streams
        self._forms = {name: _form_of(parameter) for name, parameter in parameters.items()}
        self._places: dict[str, int] = {}
        self._copies: collections.deque[tuple[str, Event, Any]] = collections.deque()
        streams.register([tensor for number in (0, 1) for tensor in values[number].values()], True)
        streams.register([tensor for number in (0, 1) for tensor in contributions[number].values()], False)

    def load(self, number: int, may_be_written: bool = False) -> None:
        values = self._values[number]
        is_first = not self._versions  # Frozen parameters keep their values.
        with torch.no_grad():
            self._streams.upload(
                [(p.data, values[name]) for name, p in self._parameters.items() if is_first or p.requires_grad]
            )
        for name, parameter in self._parameters.items():
            if is_first or parameter.requires_grad:
                self._places[name] = parameter.data_ptr()
                self._versions[name] = parameter._version

    def store(self, name: str, tensor: Any, number: int) -> None:
        source = values_of(tensor)
        event = self._streams.download(self._contributions[number][name], source)
        self._copies.append((name, event, source))  # The source stays alive until its copy has ended.

    def settled(self) -> list[str]:
        result = []
        while self._copies and self._copies[0][1].query():
            result.append(self._copies.popleft()[0])
        return result

    def finish(self) -> list[str]:
        for _, event, _ in self._copies:
            event.synchronize()
        result = [name for name, _, _ in self._copies]
        self._copies.clear()
        return result

    def has_moved(self, name: str) -> bool:
        """Returns whether a parameter has another form. It may move: flatten_parameters() of an RNN moves it."""
        return _form_of(self._parameters[name]) != self._forms[name]

    def written(self, number: Optional[int] = None, compares: bool = False) -> Optional[str]:
        for name, parameter in self._parameters.items():
            if parameter._version != self._versions[name]:
                return name
            place = parameter.data_ptr()
            if number is None or (place == self._places[name] and not compares):
                continue
            if not torch.equal(parameter.detach().cpu(), self._values[number][name]):
                return name
            self._places[name] = place
        return None

    def release(self) -> None:
        self.finish()


def _is_same(a: Any, b: Any) -> bool:
    """Compares bytes of float32 tensors, so that NaN equals itself."""
    return bool(torch.equal(a.view(torch.int32), b.view(torch.int32)))


def _form_of(parameter: Any) -> tuple[Any, ...]:
    return parameter.shape, parameter.dtype, parameter.device


class CudaStreams:
    """One stream for copies up, one for copies down."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._up = torch.cuda.Stream(device)
        self._down = torch.cuda.Stream(device)

    def upload(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        current = torch.cuda.current_stream(self._device)
        self._up.wait_stream(current)  # The batch before still reads the parameters.
        with torch.cuda.stream(self._up):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
        current.wait_stream(self._up)

    def download(self, target: Any, source: Any) -> Any:
        self._down.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._down):
            target.copy_(source, non_blocking=True)
            source.record_stream(self._down)
            event = torch.cuda.Event()
            event.record(self._down)
        return event

    def register(self, tensors: Sequence[Any], is_read_only: bool) -> None:
        begin = min(tensor.data_ptr() for tensor in tensors)
        end = max(tensor.data_ptr() + tensor.nbytes for tensor in tensors)
        read_only = 8  # cudaHostRegisterReadOnly
        result = torch.cuda.cudart().cudaHostRegister(begin, end - begin, read_only if is_read_only else 0)
        if int(result) != 0:  # The copies stay slow; they are correct either way.
            self._forget_error()

    def _forget_error(self) -> None:
        """CUDA keeps the error of a call, and the next kernel of the program would report it as its own."""
        with contextlib.suppress(RuntimeError):
            torch.ones(1, device=self._device).add_(1)


def make_memory(
    device: Any,
    parameters: Mapping[str, Any],
    values: Sets,
    contributions: Sets,
    streams: Optional[Streams],
    copy_of: Callable[[int], Any],
) -> Memory:
    """copy_of: that of Memory."""
    if streams is not None:
        return DeviceMemory(parameters, values, contributions, streams)
    if device.type == "cpu":
        return Memory(parameters, values, contributions, copy_of)
    if device.type == "cuda":
        return DeviceMemory(parameters, values, contributions, CudaStreams(device))
    raise ProgramError(f"the parameters are on {device}; Shoal computes on cpu and cuda devices")

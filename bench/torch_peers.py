"""PyTorch as a peer, where it is installed: its settings, networks, gradients and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from portable.backend import Device
from portable.system.isolation import usable_cores
from portable_bench.networks import RATE
from portable_bench.operation import Case, Contender, Run

# PyTorch as fast as it can be set to be without computing something else.


@cache
def torch_at_its_best() -> Any:
    """The module: on all cores, cuDNN's algorithms chosen by timing, single precision without TF32.

    TF32 keeps 10 bits of each factor, which is another problem than ours solve.
    """
    import torch

    torch.set_num_threads(max(torch.get_num_threads(), usable_cores()))
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    return torch


# Networks of two layers in PyTorch, where it is installed for a device.


def torch_forward(case: Case) -> list[Contender]:
    """A forward pass as written, and on a GPU replayed from a graph."""
    return _contenders(case, {"PyTorch": _forward, "PyTorch graph": _forward_graph})


def torch_training(case: Case, steps: int) -> list[Contender]:
    """Steps of training as written."""
    return _contenders(case, {"PyTorch": partial(_training, steps)})


def torch_stencil_gradient(case: Case) -> list[Contender]:
    """The gradient of a sum over a stencil by PyTorch's tape."""
    return _contenders(case, {"PyTorch": _stencil_gradient})


def _contenders(case: Case, ways: dict[str, Callable[..., Run]]) -> list[Contender]:
    where = torch_device(case.device)
    if where is None:
        return []
    on_gpu = where == "cuda"
    device = case.device if on_gpu else None
    return [
        Contender(name, partial(way, device), device, peer=True)
        for name, way in ways.items()
        if on_gpu or "graph" not in name
    ]


def torch_device(device: Device) -> str | None:
    """The name of PyTorch's device; None where there is no PyTorch for it."""
    if find_spec("torch") is None:
        return None
    if device.capabilities.kind == "cpu":
        return "cpu"
    torch = torch_at_its_best()

    return "cuda" if device.backend in ("cuda", "rocm") and torch.cuda.is_available() else None


def as_tensors(device: Device | None, arrays: tuple[Any, ...]) -> list[Any]:
    """Tensors that share the arrays' memory; NumPy's where there is no device."""
    torch = torch_at_its_best()

    return [torch.from_numpy(x) if device is None else torch.from_dlpack(x) for x in arrays]


def as_array(device: Device | None, tensor: Any) -> Any:
    """An array that shares the tensor's memory."""
    return tensor.numpy() if device is None else device.adopt(tensor)


def _two_layers(device: Device | None, arrays: tuple[Any, ...]) -> tuple[Run, Any]:
    torch = torch_at_its_best()

    x, w1, b1, w2, b2 = as_tensors(device, arrays)
    out = torch.empty((x.shape[0], b2.shape[0]), dtype=x.dtype, device=x.device)

    def run() -> Any:
        with torch.inference_mode():
            hidden = torch.nn.functional.linear(x, w1, b1)
            torch.addmm(b2, torch.nn.functional.relu(hidden), w2.t(), out=out)

    return run, as_array(device, out)


def _forward(device: Device | None, *arrays: Any) -> Run:
    run, out = _two_layers(device, arrays)
    return lambda: (run(), out)[1]


def _forward_graph(device: Device | None, *arrays: Any) -> Run:
    torch = torch_at_its_best()

    run, out = _two_layers(device, arrays)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):  # libraries set themselves up outside of the graph
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return lambda: (graph.replay(), out)[1]


def _stencil_gradient(device: Device | None, x: Any) -> Run:
    torch = torch_at_its_best()
    leaf = as_tensors(device, (x,))[0].requires_grad_()

    def run() -> Any:
        middle = leaf[1:-1, 1:-1]
        around = leaf[:-2, 1:-1] + leaf[2:, 1:-1] + leaf[1:-1, :-2] + leaf[1:-1, 2:]
        (gradient,) = torch.autograd.grad((middle * (around - 4 * middle)).sum(), leaf)
        return as_array(device, gradient)

    return run


def _training(steps: int, device: Device | None, *arrays: Any) -> Run:
    torch = torch_at_its_best()

    x, y, w1, b1, w2, b2 = as_tensors(device, arrays)
    half = x.dtype is torch.float16
    kind = torch.float32 if half else x.dtype
    network = torch.nn.Sequential(
        torch.nn.Linear(*reversed(w1.shape)), torch.nn.ReLU(), torch.nn.Linear(*reversed(w2.shape))
    ).to(device=x.device, dtype=kind)
    with torch.no_grad():
        for parameter, given in zip(network.parameters(), (w1, b1, w2, b2), strict=True):
            parameter.copy_(given)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    scaler = torch.amp.GradScaler(x.device.type, enabled=half)
    batches = list(zip(x.chunk(steps), y.chunk(steps), strict=True))

    def step(a: Any, b: Any) -> None:
        optimizer.zero_grad()
        with torch.autocast(x.device.type, torch.float16, enabled=half):
            loss = torch.nn.functional.mse_loss(network(a), b)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    parameters = tuple(as_array(device, p.detach()) for p in network.parameters())

    def run() -> Any:
        for a, b in batches:
            step(a, b)
        return parameters

    return run


# Convolution in PyTorch, where it is installed for a device.


def torch_conv(case: Case, window: tuple[int, int, int, int]) -> list[Contender]:
    """By cuDNN, which tries its algorithms first and leaves TF32 out, or oneDNN on processors.

    Half precision lies with channels last.

    Parameters
    ----------
    case : Case
    window : (int, int, int, int)
        Taps, stride, padding and groups.
    """
    where = torch_device(case.device)
    if where is None:
        return []
    device = case.device if where == "cuda" else None
    return [Contender("PyTorch", partial(_conv, device, window), device, peer=True)]


def _conv(device: Device | None, window: tuple[int, int, int, int], *arrays: Any) -> Run:
    torch, (_, stride, padding, groups) = torch_at_its_best(), window
    x, w = as_tensors(device, arrays)
    if x.element_size() == 2:
        x, w = (a.contiguous(memory_format=torch.channels_last) for a in (x, w))

    def run() -> Any:
        with torch.inference_mode():
            result = torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
            return as_array(device, result)

    return run

"""Convolution in PyTorch, where it is installed for a device."""

from __future__ import annotations

from functools import partial
from typing import Any

from portable.backend import Device
from portable_bench.operation import Case, Contender, Run
from portable_bench.torch_networks import as_array, as_tensors, torch_device
from portable_bench.torch_settings import torch_at_its_best


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

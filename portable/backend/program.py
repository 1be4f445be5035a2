"""What the kernel language generates and devices compile: programs and their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from portable.backend.capabilities import Fault
from portable.dtypes import DType


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an array that a copy engine moves as a whole.

    Attributes
    ----------
    dims : tuple of int
        The array's dimensions, the contiguous one first.
    extents : tuple of int
        The elements taken along each of `dims`.
    steps : tuple of int
        How far it is to the next element along each of `dims`.
    swizzle : int
        In local memory: as of `portable.lang.ir.types.Layout`.
    """

    dims: tuple[int, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a generated program, in order.

    Attributes
    ----------
    kind : {"size", "pointer", "offset", "extent", "stride", "box", "scalar"}
        The ndrange along `dim`, where it ends within the last workgroup; the memory of array
        parameter `parameter`; the offset of its first element in elements
        (``int64``; only for devices that pass buffers with offsets); its extent or stride in
        elements along `dim`; its description for copies of a `box` of it (only for devices with
        ``"tensor"`` copies); or scalar parameter `parameter`.
    parameter : int
        Index into the kernel's parameters; -1 for "size", which comes first.
    dim : int
        For "size", "extent" and "stride".
    type : DType
        The type by which it is passed (for "pointer" and "box" the element type in memory).
    box : Box or None
        For "box".
    """

    kind: Literal["size", "pointer", "offset", "extent", "stride", "box", "scalar"]
    parameter: int
    dim: int
    type: DType
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """What the kernel language generates and a device compiles.

    Attributes
    ----------
    source : str
        The generated text.
    entry : str
        The kernel's name in it.
    dialect : str
        ``"opencl"``, ``"cuda"``, ``"hip"`` or ``"llvm"``.
    arguments : tuple of Argument
        What to pass, in order; only what the text uses, and every pointer.
    workgroup : (int, int, int)
        The local size that it was generated for.
    local_bytes : int
        Bytes of local memory; in CUDA and HIP passed as dynamic shared memory when `dynamic_local`;
        in LLVM's text of the room of a thread, which also holds long private arrays.
    dynamic_local : bool
        Whether the local memory has to be asked for at launch.
    flags : tuple of str
        Options for the device compiler.
    hazards : frozenset of Fault
        Faults of that compiler that may end the process in which it compiles this.
    private_bytes : int
        Of `local_bytes`, those of long private arrays, for which no device has a limit.
    kernel : str
        The kernel's name as its author wrote it, where the text has to call it something else.
    """

    source: str
    entry: str
    dialect: str
    arguments: tuple[Argument, ...]
    workgroup: tuple[int, int, int]
    local_bytes: int
    dynamic_local: bool
    flags: tuple[str, ...]
    hazards: frozenset[Fault] = frozenset()
    private_bytes: int = 0
    kernel: str = ""

    @property
    def name(self) -> str:
        """What its author calls it: in messages and profiles."""
        return self.kernel or self.entry

    @property
    def shared_bytes(self) -> int:
        """What the arrays take that a workgroup shares."""
        return self.local_bytes - self.private_bytes

"""Random programs of arrays: functions of the Array API chained over views, for NumPy to check.

A program grows while NumPy runs it, so that shapes fit and every number stays exact: whole floats
of moderate size, and integers, which wrap. A function that rounds comes last in its chain.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_DTYPES: Final = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
_SHAPES: Final = ((), (1,), (5,), (33,), (2, 3), (4, 1), (3, 4, 2), (17, 9), (0, 3), (1, 1, 6))
_MOST: Final = 3000
"""Elements of an array."""
_LARGEST: Final = 2.0**20
"""Of floats, so that products and sums are exact."""
CLOSE: Final = "close_"
"""How names of results begin that are only close to NumPy's."""

LEFT_OUT: Final = {
    "implements": "registers a function; tests/array/test_interoperation.py tests it",
    "broadcast_shapes": "takes no arrays",
    "isin": "tested by itself, since it asks for equality of floats",
    "Array": "is the class", "from_dlpack": "needs another library; tests/array tests it",
    "empty": "holds nothing known", "empty_like": "holds nothing known",
    "can_cast": "is of types alone", "finfo": "is of types alone", "iinfo": "is of types alone",
    "isdtype": "is of types alone", "result_type": "is of types alone",
    "fft": "rounds throughout; tests/array/test_fft.py tests it",
    "linalg": "rounds throughout; tests/array and tests/linalg test it",
}  # fmt: skip
"""Functions that no random program calls, and why."""

_UNARY: Final = {
    "positive": "iufc", "negative": "iufc", "abs": "iuf", "square": "iufc", "sign": "iuf",
    "logical_not": "b", "bitwise_invert": "biu", "floor": "f", "ceil": "f", "trunc": "f",
    "round": "f", "conj": "c", "real": "c", "imag": "c", "isnan": "fc", "isinf": "fc",
    "isfinite": "fc", "signbit": "f",
}  # fmt: skip
_ROUNDING: Final = {
    "exp": "fc", "expm1": "f", "log": "f", "log1p": "f", "log2": "f", "log10": "f", "sin": "fc",
    "cos": "fc", "tan": "f", "sinh": "f", "cosh": "f", "tanh": "fc", "asin": "f", "acos": "f",
    "atan": "f", "asinh": "f", "acosh": "f", "atanh": "f", "sqrt": "f", "reciprocal": "f",
}  # fmt: skip
_BINARY: Final = {
    "add": "iufc", "subtract": "iufc", "multiply": "iufc", "maximum": "iuf", "minimum": "iuf",
    "equal": "biufc", "not_equal": "biufc", "less": "iuf", "less_equal": "iuf", "greater": "iuf",
    "greater_equal": "iuf", "bitwise_and": "biu", "bitwise_or": "biu", "bitwise_xor": "biu",
    "logical_and": "b", "logical_or": "b", "logical_xor": "b", "floor_divide": "iu",
    "remainder": "iu", "copysign": "f",
}  # fmt: skip
_ROUNDING_BINARY: Final = ("divide", "hypot", "atan2", "logaddexp", "nextafter", "pow")
_OPERATORS: Final = {"add": "+", "subtract": "-", "multiply": "*", "less": "<", "bitwise_xor": "^"}
_REDUCTIONS: Final = {
    "sum": "iufc", "prod": "iu", "max": "iuf", "min": "iuf", "any": "biuf", "all": "biuf",
    "count_nonzero": "biuf",
}  # fmt: skip


class Program:
    """A program under way.

    Parameters
    ----------
    random : Random
        Where choices come from.

    Attributes
    ----------
    inputs : list of array
        Its arguments.
    lines : list of str
        Its body, in terms of ``xp`` and names.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.inputs: list[Array] = []
        self.lines: list[str] = []
        self.held: dict[str, Array] = {}
        self._count = 0

    @property
    def text(self) -> str:
        """A function of a namespace and the inputs, which gives every result by name."""
        names = ", ".join(f"a{n}" for n in range(len(self.inputs)))
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"def program(xp, {names}):\n{body}\n    return dict(locals())\n"

    def run(self, xp: Any, inputs: list[Any]) -> dict[str, Any]:
        """What a namespace makes of the program."""
        space: dict[str, Any] = {}
        exec(compile(self.text, "<random program>", "exec"), space)
        found = space["program"](xp, *inputs)
        return {name: x for name, x in found.items() if name in self.held or name[:6] == CLOSE}

    # -- pieces --------------------------------------------------------------------------------

    def argument(self) -> None:
        """One more input, and a view of it."""
        dtype, shape = np.dtype(self.random.choice(_DTYPES)), self.random.choice(_SHAPES)
        seed = np.random.default_rng(self.random.randrange(2**32))
        low = 0 if dtype.kind in "bu" else -9
        x: Any = seed.integers(low, 10, shape).astype(dtype)
        if dtype.kind in "iu" and x.size and self.random.randrange(3) == 0:
            x.flat[0] = np.iinfo(dtype).min
            x.flat[-1] = np.iinfo(dtype).max
        if dtype.kind == "c":
            x = (x + 1j * seed.integers(-3, 4, shape)).astype(dtype)
        name = f"a{len(self.inputs)}"
        self.inputs.append(np.asarray(x))
        self.held[name] = np.asarray(x)

    def any(self, kinds: str = "biufc", dims: int = 0) -> str:
        """A name of an array of some kind, with as many dimensions at least."""
        fitting = [n for n, x in self.held.items() if x.dtype.kind in kinds and x.ndim >= dims]
        return self.random.choice(fitting)

    def like(self, name: str, kinds: str) -> str:
        """A name of what may meet the array in a function."""
        x = self.held[name]
        fitting = [n for n, y in self.held.items() if _meet(x, y) and y.dtype.kind in kinds]
        return self.random.choice(fitting)

    def add(self, text: str, *, close: bool = False) -> None:
        """One more line, if NumPy runs it and all stays exact."""
        found = eval(text, {"xp": np}, dict(self.held))
        if isinstance(found, tuple | list):
            found = found[0]
            text = f"({text})[0]"
        found = np.asarray(found)
        if found.size > _MOST or (not close and not _exact(found)):
            return
        self._count += 1
        name = f"{CLOSE if close else 'b'}{self._count}"
        self.lines.append(f"{name} = {text}")
        if not close:
            self.held[name] = found

    # -- steps -----------------------------------------------------------------------------------

    def step(self) -> None:
        """One more line, of some family of functions."""
        makers: list[Callable[[], None]] = [
            self.unary, self.binary, self.binary, self.reduction, self.view, self.view, self.shape,
            self.shape, self.rounding, self.chosen, self.ordered, self.created, self.product,
            self.converted, self.assigned, self.place,
        ]  # fmt: skip
        with np.errstate(all="ignore"):
            try:
                self.random.choice(makers)()
            except (IndexError, ValueError, TypeError, np.exceptions.AxisError):
                return  # nothing that fits

    def unary(self) -> None:
        word, kinds = self.random.choice(sorted(_UNARY.items()))
        self.add(f"xp.{word}({self.any(kinds)})")

    def binary(self) -> None:
        word, kinds = self.random.choice(sorted(_BINARY.items()))
        x = self.any(kinds)
        y = self.like(x, kinds)
        pick = self.random.randrange(4)
        number = self.random.choice(("2", "3", "1"))
        if pick == 0 and word in _OPERATORS and self.held[x].dtype.kind != "b":
            self.add(f"{x} {_OPERATORS[word]} {y}")
        elif pick == 1 and self.held[x].dtype.kind in "iuf" and word in ("add", "multiply"):
            self.add(f"xp.{word}({x}, {number})")
        else:
            self.add(f"xp.{word}({x}, {y})")

    def rounding(self) -> None:
        if self.random.randrange(3) == 0:
            x = self.any("f")
            word = self.random.choice(_ROUNDING_BINARY)
            other = "xp.abs(" + x + ")" if word == "pow" else x
            self.add(f"xp.{word}({other}, {self.like(x, 'f')})", close=True)
        elif self.random.randrange(3) == 0:
            word = self.random.choice(("mean", "var", "std"))
            x = self.any("f")
            if self.held[x].size:
                self.add(f"xp.{word}({x}, axis={self.axis(x)})", close=True)
        elif self.random.randrange(6) == 0:
            self.add(f"xp.linspace(0, 7, {self.random.randrange(2, 9)})", close=True)
        else:
            word, kinds = self.random.choice(sorted(_ROUNDING.items()))
            self.add(f"xp.{word}({self.any(kinds)})", close=True)

    def axis(self, name: str) -> str:
        dims = self.held[name].ndim
        choices = ["None", *map(str, range(-dims, dims))]
        if dims > 1:
            choices.append("(0, -1)")
        return self.random.choice(choices)

    def one_axis(self, name: str) -> int:
        dims = self.held[name].ndim
        return self.random.randrange(-dims, dims)

    def reduction(self) -> None:
        word, kinds = self.random.choice(sorted(_REDUCTIONS.items()))
        x = self.any(kinds)
        keep = self.random.choice(("False", "True"))
        self.add(f"xp.{word}({x}, axis={self.axis(x)}, keepdims={keep})")

    def view(self) -> None:
        """Slices of any step, new and dropped dimensions."""
        x = self.any(dims=1)
        parts = []
        for extent in self.held[x].shape:
            start = self.random.randint(0, extent)
            forms = [":", "::2", "::-1", f"{start}:", f":{start}", "::-3", f"{start}::-1"]
            parts.append(self.random.choice(forms if extent else [":"]))
        if self.random.randrange(4) == 0 and self.held[x].shape[0]:
            parts[0] = str(self.random.randrange(self.held[x].shape[0]))
        if self.random.randrange(4) == 0:
            parts.insert(self.random.randrange(len(parts) + 1), "None")
        self.add(f"{x}[{', '.join(parts)}]")

    def shape(self) -> None:
        """The same elements in other places."""
        x = self.any(dims=1)
        dims, size, axis = self.held[x].ndim, self.held[x].size, self.one_axis(x)
        order = list(range(dims))
        self.random.shuffle(order)
        again = self.like(x, "biufc")
        forms = [
            f"xp.reshape({x}, (-1,))" if size else f"xp.reshape({x}, ({size},))",
            f"xp.permute_dims({x}, {tuple(order)})",
            f"xp.flip({x}, axis={self.axis(x)})",
            f"xp.roll({x}, {self.random.randint(-4, 4)}, axis={axis})",
            f"xp.expand_dims({x}, axis={axis})",
            f"xp.squeeze(xp.expand_dims({x}, axis=0), axis=0)",
            f"xp.concat(({x}, {x}), axis={axis})",
            f"xp.concat(({x}, {again}), axis=None)",
            f"xp.stack(({x}, {x}), axis={axis})",
            f"xp.broadcast_to({x}, (2, *{self.held[x].shape}))",
            f"xp.broadcast_arrays({x}, {again})",
            f"xp.moveaxis({x}, {axis}, 0)",
            f"xp.repeat({x}, 2, axis={axis})",
            f"xp.tile({x}, (2, 1))",
            f"xp.unstack({x}, axis={axis})",
            f"xp.meshgrid(xp.reshape({x}, (-1,)), xp.reshape({x}, (-1,))[:3])",
        ]
        if dims > 1:
            forms += [f"xp.tril({x})", f"xp.triu({x}, k=1)", f"xp.matrix_transpose({x})"]
        self.add(self.random.choice(forms))

    def chosen(self) -> None:
        x = self.any("iuf")
        y = self.like(x, "iuf")
        forms = [f"xp.where({x} > 1, {x}, {y})", f"xp.clip({x}, 1, 5)"]
        if self.held[x].ndim:
            forms += [f"{x}[{x} > 1]", f"xp.nonzero({x})"]
        self.add(self.random.choice(forms))

    def ordered(self) -> None:
        x = self.any("iuf", dims=1)
        axis, flat = self.one_axis(x), f"xp.reshape({x}, (-1,))"
        down = self.random.choice(("", ", axis=0"))
        scanned = self.any("iu", dims=1)
        forms = [
            f"xp.sort({x}, axis={axis})",
            f"xp.argsort({x}, axis={axis}, stable=True)",
            f"xp.searchsorted(xp.sort({flat}), {flat})",
            f"xp.sort(xp.unique_values({x}))",
            f"xp.sort(xp.unique_counts({x}).counts)",
            f"xp.unique_inverse({x}).inverse_indices",
            f"xp.sort(xp.unique_all({x}).indices)",
            f"xp.cumulative_sum({x}, axis={axis})",
            f"xp.cumulative_prod({scanned}, axis={self.one_axis(scanned)})",
            f"xp.diff({x}, axis={axis})",
        ]
        if self.held[x].size:
            forms += [f"xp.argmax({flat}{down})", f"xp.argmin({flat}{down})"]
        self.add(self.random.choice(forms))

    def created(self) -> None:
        x = self.any("iuf")
        forms = [
            f"xp.zeros_like({x})", f"xp.ones_like({x})", f"xp.full_like({x}, 3)",
            "xp.eye(4, 3, dtype=xp.int32)", "xp.arange(2, 20, 3)", "xp.zeros((2, 3))",
            "xp.ones((5,), dtype=xp.uint8)", "xp.full((3, 2), 7, dtype=xp.int16)",
            f"xp.asarray({x}, copy=True)",
        ]  # fmt: skip
        self.add(self.random.choice(forms))

    def product(self) -> None:
        x = self.any("iufc", dims=1)
        turned = f"xp.permute_dims({x}, {tuple(reversed(range(self.held[x].ndim)))})"
        dims = self.held[x].ndim
        self.add(self.random.choice([
            f"xp.matmul({x}, xp.matrix_transpose({x}))" if dims > 1 else f"xp.matmul({x}, {x})",
            f"xp.tensordot({x}, {turned}, axes=1)",
            f"xp.vecdot({x}, {x})",
        ]))  # fmt: skip

    def converted(self) -> None:
        """To a type that holds all the numbers."""
        x = self.any("biuf")
        whole = self.held[x].astype(np.float64)
        fitting = [
            dtype
            for dtype in _DTYPES[1:11]
            if np.isfinite(whole).all() and (whole.astype(dtype).astype(np.float64) == whole).all()
        ]
        self.add(f"xp.astype({x}, xp.{self.random.choice(fitting)})")

    def assigned(self) -> None:
        """Elements of a copy set, by slices and masks."""
        x = self.any("iuf", dims=1)
        if not self.held[x].size:
            return
        self.add(f"xp.asarray({x}, copy=True)")
        name = next(reversed(self.held))
        target = self.random.choice(("1:", "::2", "0", "...", f"{name} > 2"))
        self.lines.append(f"{name}[{target}] = {self.random.choice('123')}")
        exec(self.lines[-1], {"xp": np}, self.held)

    def place(self) -> None:
        """Elements by their numbers."""
        x = self.any(dims=1)
        axis, whole = self.one_axis(x), self.any("iu")
        if not self.held[x].shape[axis]:
            return
        some = [self.random.randrange(self.held[x].shape[axis]) for _ in range(3)]
        order = f"xp.argsort(xp.zeros({self.held[x].shape}), axis={axis}, stable=True)"
        self.add(self.random.choice([
            f"xp.take({x}, xp.asarray({some}), axis={axis})",
            f"xp.take_along_axis({x}, {order}, axis={axis})",
            f"xp.bitwise_left_shift({whole}, xp.full_like({whole}, 1))",
            f"xp.bitwise_right_shift({whole}, xp.full_like({whole}, 2))",
        ]))  # fmt: skip


def _meet(x: Array, y: Array) -> bool:
    """Whether two arrays broadcast, and the standard says what type they have together."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    kinds = {"i": "i", "u": "i", "f": "f", "c": "f", "b": "b"}
    if kinds[x.dtype.kind] != kinds[y.dtype.kind]:
        return False
    mixed = {x.dtype.kind, y.dtype.kind} == {"i", "u"}
    return not (mixed and np.dtype(np.uint64) in (x.dtype, y.dtype))


def _exact(x: Array) -> bool:
    if x.dtype.kind not in "fc":
        return True
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    return all(
        bool((np.isfinite(p) & (np.abs(p) < _LARGEST) & (p == np.rint(p))).all()) for p in parts
    )


def random_program(random: Random, steps: int = 14) -> Program:
    """A program with its inputs."""
    program = Program(random)
    for _ in range(4):
        program.argument()
    for _ in range(steps):
        program.step()
    return program

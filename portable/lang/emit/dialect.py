"""What makes one C-family language differ from another: a table of spellings.

Templates are `str.format` strings. ``{0}``, ``{1}``, ... stand for operands, ``{T}`` for the C type
in question; literal braces are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, Protocol, runtime_checkable

from portable.backend import Capabilities, Program
from portable.backend.capabilities import Fault
from portable.dtypes import DType
from portable.errors import UnsupportedError
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.passes.semantics import Semantics

_SAME_NAME: Final = """
acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 floor log log10 log1p log2
rint rsqrt sin sinh sqrt tan tanh trunc
"""
SAME_NAME: Final = tuple(_SAME_NAME.split())
"""Functions of one operand that OpenCL C and the C library call as the language does."""


def printf_formats(long: str) -> dict[str, str]:
    """How ``printf`` writes register types, 64-bit integers with `long` before the letter."""
    integers = {"bool": "%d", "i32": "%d", "u32": "%u", "i64": f"%{long}d", "u64": f"%{long}u"}
    return integers | dict.fromkeys(("f16", "f32", "f64"), "%g")


_NAME = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"([A-Za-z_]\w*)(?=\()")


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that the prelude holds where a kernel calls it.

    Attributes
    ----------
    text : str
        Template of the definition; ``{name}`` is its name, ``{T}`` and ``{U}`` the C types of the
        operand and of the unsigned integer of its width, ``{bits}`` that width, ``{asm}`` the
        keyword and ``{r}`` NVIDIA's constraint for a register of that width.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Asm:
    """How an `statements.Instruction` is spelled.

    Attributes
    ----------
    text : str
        Template of C statements (braces doubled). ``{o0}`` is output 0, a C lvalue; ``{i0}`` input
        0, a C expression; ``{a0}`` address 0, a C pointer to the element; ``{s0}`` the same address
        as a 32-bit shared-memory address (NVIDIA); ``{b0}`` array 0 of which it takes a box, a
        pointer to the description. A vector output's lane 1 is ``{o0}.lane[1]``.
    helpers : tuple of str
        Definitions that the prelude must hold, as text.
    """

    text: str
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AtomicWords:
    """How atomics and fences are spelled; see `atomics`.

    Attributes
    ----------
    style : {"opencl", "nvidia", "clang"}
        Which printer of `atomics` applies.
    orders, scopes : mapping
        Spellings of memory orders and scopes.
    """

    style: Literal["opencl", "nvidia", "clang"]
    orders: Mapping[str, str]
    scopes: Mapping[str, str]


PTX_ATOMICS: Final = AtomicWords(
    style="nvidia",
    orders={name: name for name in ("relaxed", "acquire", "release", "acq_rel")},
    scopes={"workgroup": "cta", "device": "gpu"},
)
"""What NVIDIA's compilers assemble, that of CUDA and that of OpenCL."""


def _unvaried(dialect: Dialect, capabilities: Capabilities) -> Dialect:
    return dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spellings of one language.

    Attributes
    ----------
    name : str
        By which it is registered (`language`), such as ``"opencl"``.
    types : mapping
        C types of register types by short name.
    memory_types : mapping
        C types of elements in memory by short name, where they differ.
    suffixes : mapping
        Suffixes of literals by short name.
    specials : mapping
        Spellings of ``"inf"`` and ``"nan"`` by short name.
    native_vectors : bool
        Whether vectors are built in, OpenCL's; else they are structs of the prelude.
    spaces : mapping
        Qualifier (with a blank) of pointers into each space.
    restrict, function, kernel : str
        Qualifiers of a pointer without aliases, of helpers and of the entry.
    work_items : mapping
        Template by word; ``{d}`` the dimension, ``{x}`` its letter, ``{size}`` the local size,
        ``{T}`` the type wanted. `sums` are those words whose outermost operator is ``+`` or ``*``.
    barrier : str
        The statement.
    functions, fast_functions : mapping
        Template by function name, or by ``"name.f32"``, ``"name.i"`` (kind); the second table wins
        under fastmath.
    bitcasts : mapping
        Template by ``"from.to"`` in short names.
    casts : mapping
        Template by ``"from.to"``, where a plain C cast would not do.
    half_load, half_store : str
        Reading and writing a `float16` element as `float32`; ``{p}`` pointer, ``{i}`` offset,
        ``{v}`` value.
    helpers : mapping
        Helpers by name, for this dialect.
    preludes : callable
        The lines before everything else, for a kernel, its device and the features that it uses
        (``"sub_groups"``, ``"atomics64"``).
    workgroup : callable
        The attribute that fixes the workgroup, before the entry's name; of the same.
    flags : callable
        Compiler options for a kernel's options and a device.
    sub_groups : mapping
        Template of ``shuffle``: ``{0}`` value, ``{1}`` source, ``{active}`` how many take part,
        ``{size}`` how many there may be.
    semantics : Semantics
        What its operators mean by themselves.
    atomics : AtomicWords
        Of atomics and fences.
    instructions : mapping
        Device instructions by name.
    printf_formats : mapping
        By short name.
    static_local_limit : int
        Most bytes of local memory that can be declared statically.
    local_static, local_dynamic : str
        Declarations of the local memory, ``{bytes}`` long, in the kernel's body.
    address, shared_address : str
        How instructions are given the pointer ``{p}``, generic and as 32 bits of shared memory.
    box, box_address, box_begun : str
        The argument ``{name}`` that describes boxes of an array, where it lies, and what finds that
        at the beginning of the kernel ``{entry}``, if need be, by the argument's ``{number}``.
    asm : str
        The keyword before text for the assembler.
    clock : str
        A function ``pt_clock`` that counts cycles, if there is one; ``{function}``, ``{u64}`` and
        ``{asm}`` are the dialect's.
    clang : bool
        Whether kernels are compiled by Clang for a processor, whose built-in functions and
        attributes serve where native vectors need no alignment, lanes are mixed, lines of caches
        are fetched ahead or written past them.
    varied : callable
        The dialect as the compiler of a device has it, given this one and the device.
    """

    name: str
    types: Mapping[str, str]
    memory_types: Mapping[str, str]
    suffixes: Mapping[str, str]
    specials: Mapping[str, str]
    native_vectors: bool
    spaces: Mapping[str, str]
    restrict: str
    function: str
    kernel: str
    work_items: Mapping[str, str]
    sums: frozenset[str]
    barrier: str
    functions: Mapping[str, str]
    fast_functions: Mapping[str, str]
    bitcasts: Mapping[str, str]
    casts: Mapping[str, str]
    half_load: str
    half_store: str
    helpers: Mapping[str, Helper]
    preludes: Callable[[Kernel, Capabilities, frozenset[str]], list[str]]
    workgroup: Callable[[Kernel, Capabilities, frozenset[str]], str]
    flags: Callable[[Options, Capabilities], tuple[str, ...]]
    sub_groups: Mapping[str, str]
    semantics: Semantics
    atomics: AtomicWords
    printf_formats: Mapping[str, str]
    static_local_limit: int
    local_static: str
    local_dynamic: str
    address: str = "{p}"
    shared_address: str = "(unsigned int)__cvta_generic_to_shared({p})"
    box: str = ""
    box_address: str = "&{name}"
    box_begun: str = ""
    asm: str = "asm"
    clock: str = ""
    clang: bool = False
    varied: Callable[[Dialect, Capabilities], Dialect] = _unvaried
    instructions: Mapping[str, Asm] = field(default_factory=dict)

    def memory_type(self, kind: DType) -> str:
        """The C type of an element in memory; of one component where it is complex."""
        real = kind.real.short
        return self.memory_types.get(real) or self.types[real]

    def words(self) -> frozenset[str]:
        """The identifiers that a kernel's names must not shadow: types, functions, constants."""
        tables = (
            self.functions, self.fast_functions, self.work_items, self.casts, self.bitcasts,
            self.sub_groups, {"load": self.half_load, "store": self.half_store},
        )  # fmt: skip
        called = [text for table in tables for text in table.values()]
        called += [helper.text for helper in self.helpers.values()]
        names = (*self.types.values(), *self.memory_types.values(), *self.specials.values())
        return _words_in(tuple(called), (*names, self.barrier))


@lru_cache(64)
def _words_in(called: tuple[str, ...], named: tuple[str, ...]) -> frozenset[str]:
    """The names of what some texts call, and all names in others; asked for with each kernel."""
    names = [name for text in called for name in _CALLED.findall(text)]
    return frozenset(names + [name for text in named for name in _NAME.findall(text)])


# Spellings that steer a dialect clear of what a device's compiler gets wrong.

_SIGNED_PRODUCT: Final = Helper(
    """{T} {name}({T} x, {T} y)
{{
    const {U} high = mul_hi(({U})x, ({U})y);
    return ({T})(high - ({U})((x >> {bits} - 1) & y) - ({U})((y >> {bits} - 1) & x));
}}"""
)
"""The product of unsigned numbers, and what each sign takes off its upper half."""

_HIDDEN_NEGATIVE: Final = Helper(
    """{T} {name}({T} x)
{{
    {U} negative;
    {asm}("xor.b{bits} %0, %1, -1;" : "={r}"(negative) : "{r}"(({U})x - 1));
    return ({T})negative;
}}"""
)
"""The complement of one less. NVIDIA's compiler would find out that this is the negative, but does
not read the assembler's text, and the assembler does not find out."""


_STEERING: Final = {
    Fault.UNBOUNDED_NEGATIVES: (("mulhi.i64",), "signed_product", _SIGNED_PRODUCT),
    Fault.FUSED_NEGATIVES: (("neg.i", "neg.u"), "minus", _HIDDEN_NEGATIVE),
}
"""Which functions a helper stands for, its name and its text."""


def steered(dialect: Dialect, faults: Iterable[Fault]) -> Dialect:
    """The dialect for a compiler with these faults."""
    for fault in sorted(faults):
        if fault in _STEERING:
            steered_words, name, text = _STEERING[fault]
            functions = {**dialect.functions, **dict.fromkeys(steered_words, f"@{name}")}
            helpers = {**dialect.helpers, name: text}
            dialect = replace(dialect, functions=functions, helpers=helpers)
    return dialect


# The languages that programs are generated in, found by name among those that are installed.
#
# Whoever adds one registers it, as backends are registered: an entry point of the group
# ``portable.dialects``, whose name is what `portable.backend.Capabilities.dialect` says, and whose
# object is a `dialect.Dialect`, the spellings of a language much like C, or a `Language`, which
# prints by itself.

GROUP: Final = "portable.dialects"


@runtime_checkable
class Language(Protocol):
    """A language outside the C family.

    Attributes
    ----------
    semantics : Semantics
        What its operators mean by themselves; kernels are reduced to these.
    """

    @property
    def semantics(self) -> Semantics:
        """What its operators mean by themselves."""

    def program(self, kernel: Kernel, capabilities: Capabilities) -> Program:
        """The program of a kernel that `portable.lang.passes.reduced` gave.

        Raises
        ------
        UnsupportedError
            For a statement or expression that the language cannot say, with its name.
        """


@cache
def _installed() -> dict[str, EntryPoint]:
    """The languages by name; loads none of them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def language(name: str) -> Dialect | Language:
    """The language of a name, loaded when it is first asked for.

    Raises
    ------
    UnsupportedError
        If none is registered, or what is registered is no language or cannot be imported.
    """
    entry = _installed().get(name)
    if entry is None:
        raise UnsupportedError(
            f"no source is generated for {name!r} devices; the languages that are installed "
            f"are {', '.join(sorted(_installed())) or 'none'} (entry points of the group {GROUP!r})"
        )
    try:
        loaded: Any = entry.load()
    except Exception as error:
        raise UnsupportedError(
            f"the language {name!r} is registered as {entry.value}, which cannot be imported: "
            f"{error}"
        ) from error
    if not isinstance(loaded, Dialect | Language):
        raise UnsupportedError(
            f"the language {name!r} is registered as {entry.value}, which is a "
            f"{type(loaded).__name__}; it must be a Dialect, or have semantics and program()"
        )
    return loaded

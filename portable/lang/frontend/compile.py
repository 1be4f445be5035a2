"""From a Python function and a specialisation to a checked kernel in the IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from portable.backend import Capabilities
from portable.dtypes import DType, bool_, float16, float32, int32, int64
from portable.errors import KernelError
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    Specialisation,
    StaticSpec,
)
from portable.lang.arguments.parameters import mismatch
from portable.lang.arguments.structs import label
from portable.lang.checks import check
from portable.lang.frontend import structs
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_value, constant
from portable.lang.frontend.frames import Frame
from portable.lang.frontend.inference import Inference
from portable.lang.frontend.memory import whole
from portable.lang.frontend.outer_names import NamesRead
from portable.lang.frontend.source import FunctionSource, function_source
from portable.lang.frontend.translator import Translator
from portable.lang.frontend.values import Complex, Slot, Struct, Value
from portable.lang.function import Function
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Variable
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Array, ValueType
from portable.lang.ir.walks import map_block, names_read
from portable.system.console import remark

# Helper functions translated by themselves, for passes that put their text in place of calls.

_MAX_PASSES: Final = 24


def translate_function(
    function: Function, kinds: tuple[ValueType, ...], capabilities: Capabilities
) -> Kernel:
    """A helper function of numbers as a kernel whose last statement binds what it returns.

    Parameters
    ----------
    function : Function
    kinds : tuple of ValueType
        Of its arguments, which become the kernel's parameters; they may be vectors.
    capabilities : Capabilities
        Of the device, which the function may ask for.
    """
    inference = Inference()
    for _ in range(_MAX_PASSES):
        inference.begin()
        kernel = _inferred_pass(function, kinds, capabilities, inference)
        if not inference.changed:
            return kernel
    raise AssertionError(f"the types of the variables of {function.__name__} do not settle")


def _inferred_pass(
    function: Function,
    kinds: tuple[ValueType, ...],
    capabilities: Capabilities,
    inference: Inference,
) -> Kernel:
    source = function.source
    frame = Frame(source, (function.__name__,), {}, source.outer_names(), False)
    options, workgroup = Options(contract=False), (1, 1, 1)
    read = NamesRead()  # of Portable's own functions, whose names stand for the same for good
    builder = Builder(capabilities, options, workgroup, int32, inference, frame, source.tree, read)
    names = [x.arg for x in source.tree.args.args]
    parameters = tuple(
        Variable(builder.name(name), kind) for name, kind in zip(names, kinds, strict=True)
    )
    outcome = Translator(builder).call_function(function, [Value(x) for x in parameters], {})
    result = as_value(builder, outcome).expr
    loc = source.location(source.tree)
    return Kernel(
        function.__name__,
        parameters,
        tuple(builder.variables),
        (),
        (),
        (*builder.body, s.Let(Variable(builder.name("result"), result.type), result, loc)),
        workgroup,
        1,
        int32,
        options,
        loc,
    )


# -- compile ---------------------------------------------------------------------------------------

TOO_DEEP: Final = (
    "an expression, or calls within calls, are nested too deeply",
    "write sums of hundreds of terms as several statements, or as a loop",
)
_LIBRARY: Final = Path(__file__).parents[2]
_WEAK: Final = {"bool": bool_, "float": float32, "complex": float32}


def too_deep(kernel: Kernel) -> KernelError:
    """What is said of a kernel that Python cannot work on."""
    reason, hint = TOO_DEEP
    return KernelError(f"{kernel.name}: {reason}", kernel.loc, hint)


def translate(
    function: Callable[..., Any],
    wanted: Specialisation,
    capabilities: Capabilities,
    names: NamesRead | None = None,
) -> Kernel:
    """Translates, infers and checks one specialisation of a kernel.

    Parameters
    ----------
    function : callable
        The kernel as the user wrote it.
    wanted : Specialisation
        Types of its arguments, its constants and its options.
    capabilities : Capabilities
        Of the device, which the kernel may ask for.
    names : NamesRead, optional
        Is told which outer names were read.

    Raises
    ------
    KernelError
        For anything outside the language, with the user's file, line and column.
    UnsupportedError
        For types that the device lacks.
    """
    source = function_source(function)
    _check_annotations(source, wanted.parameters)
    inference = Inference()
    read = NamesRead() if names is None else names
    for _ in range(_MAX_PASSES):
        inference.begin()
        kernel = _pass(source, wanted, capabilities, inference, read)
        if not inference.changed:
            try:
                check(kernel)
            except RecursionError:
                raise too_deep(kernel) from None
            _tell(inference)
            return kernel
    raise KernelError(
        f"the types of the variables of {source.tree.name} do not settle",
        source.location(source.tree),
        "fix the type of a variable: x: kl.f64 = 0",
    )


def _tell(inference: Inference) -> None:
    """Gives the remarks on kernels and helpers, but for the library's own, which mean it."""
    for location, text in inference.remarks.items():
        if not Path(location.file).is_relative_to(_LIBRARY):
            remark(text, location)


def _pass(
    source: FunctionSource,
    wanted: Specialisation,
    capabilities: Capabilities,
    inference: Inference,
    names: NamesRead,
) -> Kernel:
    frame = Frame(source, (source.tree.name,), {}, source.outer_names(), True)
    index_type = int64 if wanted.index64 else int32
    builder = Builder(
        capabilities,
        wanted.options,
        wanted.workgroup,
        index_type,
        inference,
        frame,
        source.tree,
        names,
    )
    _check_options(builder)
    env = frame.env
    env.update({name: constant(builder, x) for name, x in wanted.constants})
    parameters: list[Array | Variable] = []
    for argument, spec in zip(_positional(source), wanted.parameters, strict=True):
        env[argument.arg] = _parameter(builder, parameters, argument.arg, spec, wanted)
    try:
        Translator(builder).run()
    except RecursionError:
        builder.fail(*TOO_DEEP)
    return Kernel(
        source.tree.name,
        tuple(parameters),
        tuple(builder.variables),
        tuple(builder.arrays),
        tuple(builder.fragments),
        _unasked(builder.body),
        wanted.workgroup,
        capabilities.sub_group_size,
        index_type,
        wanted.options,
        source.location(source.tree),
    )


def _unasked(body: s.Block) -> s.Block:
    """A body whose atomic operations give no value from before where nothing asks for it."""
    used = names_read(body)

    def change(x: s.Statement) -> s.Block:
        if isinstance(x, s.Atomic) and x.var is not None and x.var.name not in used:
            return (replace(x, var=None),)
        return (x,)

    return map_block(body, change)


def _check_options(builder: Builder) -> None:
    if builder.options.native_half and not builder.capabilities.native_half:
        builder.unsupported(
            "the kernel is declared native_half=True, but "
            f"{builder.capabilities.name} cannot compute in half precision; leave the option "
            "out to compute in single precision"
        )


def _positional(source: FunctionSource) -> list[ast.arg]:
    arguments = source.tree.args
    rest = [arguments.vararg] if arguments.vararg else []
    return [*arguments.posonlyargs, *arguments.args, *rest]


def _check_annotations(source: FunctionSource, specs: Sequence[ParameterSpec]) -> None:
    """Refuses what parameters' annotations do not promise; ``*arrays`` promise each.

    The library's own kernels are annotated for readers: whoever calls an operation could not mend
    a promise of theirs.
    """
    if Path(source.file).is_relative_to(_LIBRARY):
        return
    names = source.outer_names()
    for argument, spec in zip(_positional(source), specs, strict=True):
        is_rest = argument is source.tree.args.vararg
        items = spec.items if is_rest and isinstance(spec, CompositeSpec) else (spec,)
        given = (mismatch(argument.annotation, names, item) for item in items)
        wrong = next((reason for reason in given if reason), None)
        if wrong and argument.annotation is not None:
            promised = ast.unparse(argument.annotation)
            raise KernelError(
                f"{argument.arg} is annotated {promised}, and the launch gave {wrong}",
                source.location(argument),
                f"give what {promised} promises, or leave the annotation out",
                source.line(argument.lineno),
            )


def _parameter(
    builder: Builder,
    parameters: list[Array | Variable],
    name: str,
    spec: ParameterSpec,
    wanted: Specialisation,
) -> Any:
    if isinstance(spec, CompositeSpec):
        items = tuple(
            _parameter(builder, parameters, name + label(spec.kind, i), item, wanted)
            for i, item in enumerate(spec.items)
        )
        return items if spec.kind is tuple else structs.typed(builder, Struct(spec.kind, items))
    if isinstance(spec, StaticSpec):
        return constant(builder, spec.value)
    if isinstance(spec, ArraySpec):
        array = Array(
            builder.name(name),
            spec.dtype,
            "global",
            len(spec.strides),
            strides=spec.strides,
            aligned=spec.aligned,
            restrict=wanted.restrict,
            boxed=spec.boxed,
        )
        parameters.append(array)
        return whole(builder, array)
    if spec.kind == "complex":
        return Complex(
            _scalar(builder, parameters, f"{name}_re", spec),
            _scalar(builder, parameters, f"{name}_im", spec),
        )
    return _scalar(builder, parameters, name, spec)


def _scalar(
    builder: Builder, parameters: list[Array | Variable], name: str, spec: ScalarSpec
) -> Value:
    if spec.dtype is not None:
        var = Variable(builder.name(name), _passed(spec.dtype))
        parameters.append(var)
        return Value(var)
    slot = Slot(("parameter", name))
    carrier = builder.inference.carrier(slot, _WEAK.get(spec.kind, builder.index_type))
    var = Variable(builder.name(name), carrier)
    parameters.append(var)
    return Value(var, spec.kind != "bool", frozenset({slot}))


def _passed(dtype: DType) -> DType:
    """The register type of a number of a fixed dtype; halves arrive as singles, exactly."""
    real = dtype.real
    return float32 if real is float16 else real.register

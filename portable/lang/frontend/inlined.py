"""Helper functions translated by themselves, for passes that put their text in place of calls."""

from __future__ import annotations

from typing import Final

from portable.backend import Capabilities
from portable.dtypes import int32
from portable.lang.frontend.builder import Builder
from portable.lang.frontend.conversion import as_value
from portable.lang.frontend.frame import Frame
from portable.lang.frontend.inference import Inference
from portable.lang.frontend.names_read import NamesRead
from portable.lang.frontend.translator import Translator
from portable.lang.frontend.values import Value
from portable.lang.function import Function
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import Variable
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import ValueType

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
        kernel = _pass(function, kinds, capabilities, inference)
        if not inference.changed:
            return kernel
    raise AssertionError(f"the types of the variables of {function.__name__} do not settle")


def _pass(
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

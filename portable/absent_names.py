"""Where to find what users look for in an Array API namespace, and the standard does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final

_NUMERICS: Final = """
allclose bincount convolve corrcoef cov digitize einsum gradient histogram interp isclose
logspace lstsq median norm pad percentile quantile reduce_by_key segmented_reduce trapezoid
unique_rows
"""
NUMERICS: Final = frozenset(_NUMERICS.split())
"""What `portable.numerics` has, which is above this module."""

STANDARD: Final = {
    "absolute": "xp.abs",
    "amax": "xp.max",
    "amin": "xp.min",
    "angle": "xp.atan2(xp.imag(x), xp.real(x))",
    "arccos": "xp.acos",
    "arccosh": "xp.acosh",
    "arcsin": "xp.asin",
    "arcsinh": "xp.asinh",
    "arctan": "xp.atan",
    "arctan2": "xp.atan2",
    "arctanh": "xp.atanh",
    "argpartition": "portable.primitives.topk, or xp.argsort",
    "argwhere": "xp.stack(xp.nonzero(x), axis=1)",
    "around": "xp.round",
    "array": "xp.asarray",
    "array_equal": "xp.all(a == b)",
    "ascontiguousarray": "xp.asarray",
    "average": "xp.mean, or xp.sum(x * weights) / xp.sum(weights)",
    "bitwise_not": "xp.bitwise_invert",
    "bool_": "xp.bool",
    "column_stack": "xp.stack(arrays, axis=1) of vectors, xp.concat(arrays, axis=1) of matrices",
    "concatenate": "xp.concat",
    "conjugate": "xp.conj",
    "copy": "xp.asarray(x, copy=True)",
    "cross": "xp.linalg.cross",
    "cumprod": "xp.cumulative_prod",
    "cumsum": "xp.cumulative_sum",
    "delete": "x[mask], or xp.concat of the parts that stay",
    "diag": "xp.linalg.diagonal, or xp.eye(n) * v",
    "divmod": "xp.floor_divide and xp.remainder",
    "dot": "a @ b, xp.matmul, or xp.vecdot for vectors",
    "dstack": "xp.stack(arrays, axis=2)",
    "fabs": "xp.abs",
    "fill_diagonal": "xp.where(xp.eye(n) == 1, value, x)",
    "flatnonzero": "xp.nonzero(xp.reshape(x, (-1,)))[0]",
    "flatten": "xp.reshape(x, (-1,))",
    "fliplr": "xp.flip(x, axis=1)",
    "flipud": "xp.flip(x, axis=0)",
    "fmod": "xp.remainder, whose sign is the divisor's",
    "hstack": "xp.concat(arrays, axis=1), or axis=0 for vectors",
    "identity": "xp.eye",
    "in1d": "xp.isin",
    "inner": "xp.vecdot, or xp.tensordot(a, b, axes=((-1,), (-1,)))",
    "invert": "xp.bitwise_invert",
    "left_shift": "xp.bitwise_left_shift",
    "mod": "xp.remainder",
    "nan_to_num": "xp.where(xp.isnan(x), 0, x)",
    "nanmax": "xp.max(xp.where(xp.isnan(x), -xp.inf, x))",
    "nanmean": "xp.mean(x[~xp.isnan(x)])",
    "nanmin": "xp.min(xp.where(xp.isnan(x), xp.inf, x))",
    "nansum": "xp.sum(xp.where(xp.isnan(x), 0, x))",
    "ndim": "x.ndim",
    "outer": "xp.linalg.outer",
    "power": "xp.pow",
    "product": "xp.prod",
    "ptp": "xp.max(x) - xp.min(x)",
    "random": "portable.random.Generator",
    "ravel": "xp.reshape(x, (-1,))",
    "right_shift": "xp.bitwise_right_shift",
    "rint": "xp.round",
    "rollaxis": "xp.moveaxis",
    "round_": "xp.round",
    "row_stack": "xp.stack(arrays) of vectors, xp.concat(arrays) of matrices",
    "save": "numpy.save(file, portable.to_numpy(x))",
    "select": "xp.where within xp.where",
    "shape": "x.shape",
    "size": "x.size",
    "split": "slices x[a:b], or xp.unstack",
    "swapaxes": "xp.moveaxis, or x.mT for the last two",
    "trace": "xp.linalg.trace",
    "transpose": "xp.permute_dims, or x.mT for the last two dimensions",
    "true_divide": "xp.divide",
    "unique": "xp.unique_values, or xp.unique_counts, unique_inverse, unique_all",
    "vdot": "xp.vecdot",
    "vectorize": "portable.fuse",
    "vstack": "xp.concat(arrays, axis=0), or xp.stack for vectors",
}
"""NumPy's words, and what the standard has for them."""

KERNELS_AND_GRADIENTS: Final = {
    "blockDim": "kl.local_size in a kernel",
    "blockIdx": "kl.group_id in a kernel",
    "compile": "portable.kernel, or portable.fuse",
    "cuda": "portable.device('cuda'), or portable.use('cuda')",
    "current_device": "portable.device()",
    "default_rng": "portable.random.Generator",
    "elapsed_time": "portable.Timer, or Event.elapsed",
    "eye": "portable.xp().eye, of the device in use",
    "float": "portable.float32",
    "from_numpy": "portable.asarray",
    "func": "portable.function",
    "grad": "portable.vjp, or portable.Tape",
    "gradient": "portable.vjp, or portable.numerics.gradient",
    "jit": "portable.kernel, or portable.fuse for functions of arrays",
    "launch": "kernel[n](...), n being the work-items",
    "load": "numpy.load and portable.asarray; networks have load",
    "manual_seed": "portable.random.Generator(seed)",
    "njit": "portable.kernel, or portable.fuse for functions of arrays",
    "no_grad": "no Tape around it: nothing else records",
    "parallel_for": "a portable.kernel",
    "pmap": "portable.parallel",
    "prange": "kl.global_id in a kernel",
    "program_id": "kl.group_id in a kernel",
    "record": "Event.record, or portable.Tape",
    "save": "numpy.save(file, portable.to_numpy(x)); networks have save",
    "seed": "portable.random.Generator(seed)",
    "set_device": "portable.use",
    "shared": "kl.local in a kernel",
    "syncthreads": "kl.barrier in a kernel",
    "tensor": "portable.asarray",
    "threadIdx": "kl.local_id in a kernel",
    "to_device": "portable.asarray(x, device=...)",
    "vec3": "kl.vector in a kernel",
    "vectorize": "portable.fuse, or a kernel",
    "vmap": "operations on leading dimensions, or a kernel with one more",
    "wait": "portable.synchronize",
    **dict.fromkeys(
        ("bfloat16", "float8_e4m3fn", "float8_e5m2"),
        "NumPy's dtype of that name from ml_dtypes",
    ),
}
"""Words of other libraries for what `portable` has."""

PARALLEL: Final = {
    "accumulate": "portable.primitives.scan",
    "cumsum": "portable.primitives.scan",
    "exclusive_scan": "portable.primitives.scan(..., inclusive=False)",
    "inclusive_scan": "portable.primitives.scan",
    "reduce_by_key": "portable.numerics.reduce_by_key",
    "sum": "portable.primitives.reduce",
    "transform": "portable.primitives.map",
    "unique": "portable.xp().unique_values",
}
"""Words of Thrust, CUB and NumPy for what `portable.primitives` has."""

MATRICES: Final = {
    "cho_factor": "portable.linalg.cholesky",
    "cho_solve": "portable.linalg.solve_triangular twice",
    "cholesky_solve": "portable.linalg.solve_triangular twice",
    "cond": "the ratio of portable.linalg.svdvals(x)'s ends",
    "dot": "portable.linalg.gemm",
    "eig": "portable.xp().linalg.eig",
    "eigvals": "portable.xp().linalg.eigvals",
    "lu": "portable.linalg.lu_factor",
    "matmul": "portable.linalg.gemm",
    "mm": "portable.linalg.gemm",
    "norm": "portable.numerics.norm",
    **{
        name: f"portable.xp().linalg.{name}"
        for name in ("cross", "diagonal", "matrix_norm", "matrix_power", "outer", "tensordot")
    },
    "trace": "portable.xp().linalg.trace",
    "vector_norm": "portable.numerics.norm",
}
"""Words of NumPy, SciPy and PyTorch for what `portable.linalg` has."""

LAYERS: Final = {
    "AdaptiveAvgPool2d": "portable.nn.GlobalAvgPool2d()",
    "Module": "portable.nn.Layer for a layer of your own, portable.nn.Sequential for a network",
    "attention": "products and exponentials of portable.xp(), or a kernel",
    "cross_entropy": 'loss="cross_entropy" of portable.nn.fit',
    "functional": "layers, or functions of portable.xp()",
    "optim": "portable.nn.Adam, AdamW or SGD",
    "scaled_dot_product_attention": "products and exponentials of portable.xp(), or a kernel",
    "train": "portable.nn.fit",
    **{
        x.lower(): f"portable.nn.{x}, or functions of portable.xp()"
        for x in ("GELU", "ReLU", "Sigmoid", "SiLU", "Softmax", "Tanh")
    },
}
"""Words of PyTorch for what `portable.nn` has."""

SPARSE: Final = {
    **dict.fromkeys(("csr_array", "csr_matrix", "csc_matrix"), "portable.sparse.CSR.from_scipy"),
    **dict.fromkeys(("coo_array", "coo_matrix"), "portable.sparse.CSR.from_coo"),
    "sparse_csr_tensor": "portable.sparse.CSR(data, columns, offsets, shape)",
}
"""Words of SciPy and PyTorch for what `portable.sparse` has."""

DRAWING: Final = {
    "bytes": "integers(0, 256, n, dtype='uint8')",
    "rand": "uniform",
    "randint": "integers",
    "randn": "normal",
    "random": "uniform",
    "seed": "Generator(seed)",
    "shuffle": "permutation",
    "standard_exponential": "exponential",
    "standard_normal": "normal",
}
"""NumPy's words for what `portable.random.Generator` has."""

_OF_MATRICES: Final = {
    "cond": "the ratio of xp.linalg.svdvals(x)'s ends",
    "lstsq": "portable.numerics.lstsq",
    "matvec": "xp.matmul(a, x[..., None])[..., 0]",
    "multi_dot": "a @ b @ c",
    "norm": "portable.numerics.norm, xp.linalg.vector_norm or xp.linalg.matrix_norm",
}

_ALIKE: Final = 0.75
"""From what likeness on a name is taken for another one misspelt."""

_ON_THE_HOST: Final = "if NumPy has it, portable.to_numpy(x) gives NumPy's array for it"

_EXTENSIONS: Final = frozenset({"fft", "linalg"})


def is_hidden(attribute: Any, name: str) -> bool:
    """Whether an attribute of `portable.array` is one of its modules and no extension."""
    ours = isinstance(attribute, ModuleType) and attribute.__name__.startswith("portable.")
    return ours and name not in _EXTENSIONS


def absent(namespace: Any, name: str, prefix: str = "xp") -> AttributeError:
    """The error for a name that a namespace lacks, which says what to write instead.

    Parameters
    ----------
    namespace : module
        What was asked.
    name : str
        For what.
    prefix : str
        How users call the namespace: ``xp``, ``xp.linalg`` or ``xp.fft``.
    """
    instead = _OF_MATRICES.get(name) if prefix.endswith("linalg") else STANDARD.get(name)
    if name in NUMERICS and not instead:
        said = f"use portable.numerics.{name}, which takes arrays of every library"
    elif instead:
        said = f"use {instead}"
    else:
        public = getattr(namespace, "__all__", None) or dir(namespace)
        words = [word for word in public if not word.startswith("_")]
        near = get_close_matches(name, words, cutoff=_ALIKE)
        said = f"did you mean {prefix}.{near[0]}?" if near else _ON_THE_HOST
    return AttributeError(f"{prefix}.{name} is not in the Array API; {said}", name=name)


def lacking(
    package: str, names: Iterable[str], name: str, instead: Mapping[str, str]
) -> AttributeError:
    """The error for a name that a package of Portable lacks.

    Parameters
    ----------
    package : str
        As users call it.
    names : iterable of str
        What it has.
    name : str
        What was asked for.
    instead : mapping of str to str
        What names that users know from elsewhere are called.
    """
    if name.startswith("_"):
        return AttributeError(f"{package} has no attribute {name!r}", name=name)
    said = f"; use {instead[name]}" if name in instead else ""
    near = get_close_matches(name, list(names), n=1, cutoff=_ALIKE)
    if near and not said:
        said = f"; did you mean {package}.{near[0]}?"
    return AttributeError(f"{package} has no {name}{said}", name=name)

"""Blocks of the documentation for libraries and devices that few machines have; the rest skip them.

Where there is no GPU the same blocks run on a processor, but for those of CUDA's streams.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import registry
from tests.support.mpi import run_processes

PAGES: Final = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK: Final = re.compile(r"^( *)```py\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LIBRARIES: Final = {
    "libraries.md": ("torch", "jax", "jax", "sklearn", "dask"),
    "streams.md": ("torch",),
    "compiled.md": ("",),
    "groups.md": ("mpi4py",),
}
"""What each block needs, page by page."""


@pt.kernel
def saxpy(a: kl.Scalar, x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


@pt.kernel
def doubled(*arrays: kl.Array) -> None:
    for x in arrays:
        x[kl.global_id(0), 0] *= 2


class Block(NamedTuple):
    """The number of a page's blocks that it is, and its text."""

    page: str
    number: int
    library: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


def blocks() -> list[Block]:
    texts = {page: BLOCK.findall((PAGES / page).read_text()) for page in LIBRARIES}
    return [
        Block(page, number, LIBRARIES[page][number], textwrap.dedent(text))
        for page in LIBRARIES
        for number, (_, text) in enumerate(texts[page])
    ]


def test_no_block_is_left_out() -> None:
    with_blocks = {p.name for p in PAGES.parent.rglob("*.md") if BLOCK.search(p.read_text())}
    assert with_blocks == LIBRARIES.keys()
    assert [len(BLOCK.findall((PAGES / page).read_text())) for page in LIBRARIES] == [
        len(libraries) for libraries in LIBRARIES.values()
    ]


def has_cuda() -> bool:
    return bool(registry.devices_of_backend("cuda"))


def given(block: Block) -> dict[str, Any]:
    """The names that a block takes as known."""
    names: dict[str, Any] = {"pt": pt, "np": np, "n": 100, "kernel": doubled}
    if block.library == "jax":
        import jax
        import jax.numpy as jnp

        from portable.linalg import svdvals

        names |= {"jax": jax, "jnp": jnp, "svdvals": svdvals}
    if block.page == "compiled.md":
        x, y = np.ones(100, np.float32), np.ones(100, np.float32)
        names |= {"x": x, "y": y}
    if block.library == "sklearn":
        names["samples"] = np.random.default_rng(0).standard_normal((50, 4))
    if block.page == "streams.md":
        import torch

        names |= {"torch": torch, "model": lambda x: x + 1, "x": torch.ones(100, 1, device="cuda")}
    return names


@pytest.mark.needs_processor
@pytest.mark.parametrize("block", blocks(), ids=str)
def test_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if block.library:
        pytest.importorskip(block.library)
    if block.page == "streams.md" and not has_cuda():
        pytest.skip("needs CUDA's streams")
    if block.library == "mpi4py":
        program = f"def work(member):\n    return member.rank\n\n\n{block.text}assert result == 0\n"
        (tmp_path / "program.py").write_text(program)
        done = run_processes(1, tmp_path / "program.py")
        assert done.returncode == 0, done.stderr
        return
    names, text = given(block), block.text
    if block.page == "compiled.md":
        package_of_saxpy()
    if block.library == "sklearn":
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")
        text = text.replace('"opencl"', repr(arrays_of_ours()))
    if block.library == "dask":
        text = with_samples(text, monkeypatch).replace('"cuda"', repr(arrays_of_ours()))
    if not has_cuda():
        text = text.replace('"cuda"', '"cpu"')
    exec(compile(text, str(block), "exec", dont_inherit=True), names)
    assert not isinstance(names.get("sigma"), np.ndarray)


def arrays_of_ours() -> str:
    found = next((d.name for d in pt.devices() if d.backend == "opencl"), None)
    return found or "cpu:native-arrays"


def package_of_saxpy() -> None:
    """What the command before the block makes."""
    from portable import compiled

    made = compiled.compile_kernel(
        saxpy,
        "float, f32[:], f32[:]",
        devices=["cuda" if has_cuda() else "cpu"],
        workgroup=256,
    )
    compiled.save_compiled("saxpy.zip", [made])


def with_samples(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The block, an array of Dask's in the place of a file."""
    import dask.array as da

    samples = np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)
    monkeypatch.setattr(da, "from_zarr", lambda path: da.from_array(samples, chunks=(10, 3)))
    return text + "assert spread.shape == (3,)\n"

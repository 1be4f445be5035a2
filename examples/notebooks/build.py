"""Makes the notebooks beside this file of the examples: a cell for each part, the last one drawn.

``python examples/notebooks/build.py`` runs them, too, and keeps what they print and draw.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import linecache
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENDS = {
    "mandelbrot": """
import matplotlib.pyplot as plt

counts = run(300, 360)
print(f"{pt.device().name}: {(counts == 200).mean():.1%} of the picture is in the set")
plt.imshow(np.log1p(counts), cmap="magma")
plt.axis("off")
plt.show()
""",
    "kmeans": """
import matplotlib.pyplot as plt

points = blobs(2000)
centres, nearest = run(points, 4, 20)
print(f"{pt.device().name}: centres {np.round(centres, 2).tolist()}")
plt.scatter(points[:, 0], points[:, 1], c=nearest, s=1, cmap="viridis")
plt.plot(centres[:, 0], centres[:, 1], "rx")
plt.show()
""",
    "svd_image": """
import matplotlib.pyplot as plt

image = picture(200)
sigma = run(image)
print(f"{pt.device().name}: 20 of 200 values hold {held(sigma, 20):.2%} of the picture")
u, s, vt = np.linalg.svd(image)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2))
for axis, rank in zip(axes, (5, 20, 200), strict=True):
    axis.imshow((u[:, :rank] * s[:rank]) @ vt[:rank], cmap="gray")
    axis.set_title(f"rank {rank}: {held(sigma, rank):.2%}")
    axis.axis("off")
plt.show()
""",
}
"""The last cell of each, in place of the example's `main`."""


def cells(name: str) -> list[tuple[str, str]]:
    """Kinds and texts of a notebook's cells."""
    source = (HERE.parent / f"{name}.py").read_text()
    tree = ast.parse(source)
    lines = source.splitlines()
    head, *title = (ast.get_docstring(tree) or "").split("\n", 1)
    found = [("markdown", f"# {head.rstrip('.')}\n{''.join(title)}".strip())]
    plain: list[str] = []
    for part in tree.body[1:]:
        named = getattr(part, "name", "")
        if isinstance(part, ast.If) or named == "main" or _is_unused(part):
            continue
        first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", []))])
        gap = [""] if plain and not lines[first - 2].strip() else []
        text = "\n".join([*gap, *lines[first - 1 : part.end_lineno]])
        if named:
            found += [("code", "\n".join(plain))] if plain else []
            plain = []
            found.append(("code", text.lstrip("\n")))
        else:
            plain.append(text)
    return [*found, ("code", ENDS[name].strip())]


def _is_unused(part: ast.stmt) -> bool:
    """Imports that only files or `main` need."""
    return isinstance(part, ast.ImportFrom) and part.module in ("__future__", "pathlib")


def outputs(texts: list[str], file: str) -> Iterator[list[dict[str, Any]]]:
    """What each cell of code prints and draws, run one after the other."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {"__name__": "notebook"}
    for number, text in enumerate(texts):
        place = f"<{file} {number}>"
        # Kernels read their source again, which is not in a file of its own.
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        printed, found = io.StringIO(), []
        plt.show = lambda: None
        with redirect_stdout(printed):
            exec(compile(text, place, "exec"), names)  # noqa: S102
        if printed.getvalue():
            lines = printed.getvalue().splitlines(keepends=True)
            found.append({"output_type": "stream", "name": "stdout", "text": lines})
        for figure in map(plt.figure, plt.get_fignums()):
            drawn = io.BytesIO()
            figure.savefig(drawn, dpi=60, bbox_inches="tight")
            data = {"image/png": base64.b64encode(drawn.getvalue()).decode()}
            found.append({"output_type": "display_data", "metadata": {}, "data": data})
        plt.close("all")
        yield found


def notebook(name: str) -> dict[str, Any]:
    """The notebook of an example, with outputs."""
    parts = cells(name)
    found = outputs([text for kind, text in parts if kind == "code"], name)
    made = []
    for number, (kind, text) in enumerate(parts):
        cell: dict[str, Any] = {
            "cell_type": kind, "id": f"{name}-{number}", "metadata": {},
            "source": text.splitlines(keepends=True),
        }  # fmt: skip
        if kind == "code":
            cell |= {"execution_count": number, "outputs": next(found)}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    for example in ENDS:
        text = json.dumps(notebook(example), indent=1, ensure_ascii=False) + "\n"
        (HERE / f"{example}.ipynb").write_text(text)

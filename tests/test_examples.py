"""The examples do what they say, on every device, at sizes that suit the simulator."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse

import portable as pt
from portable.backend import Device
from tests.nn import numpy_layers

FOLDER = Path(__file__).parents[1] / "examples"
TESTED = {
    "bitonic_sort",
    "conjugate_gradients",
    "dask_workers",
    "digits",
    "forecast",
    "heat",
    "heat_fit",
    "histogram",
    "kmeans",
    "life",
    "mandelbrot",
    "mobile",
    "monte_carlo",
    "nbody",
    "own_layer",
    "pca",
    "residual",
    "softmax",
    "sparse_solver",
    "spmv",
    "svd_image",
    "target",
    "train",
    "wave",
}


def load(name: str, folder: Path = FOLDER) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples.{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def used(device: Device) -> Iterator[Device]:
    """A device in use, whose namespace the examples ask for."""
    with pt.use(device):
        yield device


def test_every_example_is_tested_and_listed() -> None:
    names = {file.stem for file in FOLDER.glob("*.py")}
    assert names == TESTED
    text = (FOLDER / "README.md").read_text()
    assert all(f"`{name}.py`" in text for name in names)


def test_life(used: Device) -> None:
    start = (np.random.default_rng(0).random((9, 12)) < 0.4).astype(np.uint8)
    expected = start
    for _ in range(3):
        shifts = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
        near = sum(np.roll(expected, shift, (0, 1)).astype(int) for shift in shifts)
        expected = ((near == 3) | ((expected == 1) & (near == 2))).astype(np.uint8)
    assert np.array_equal(load("life").run(start, 3), expected)


def test_mandelbrot(used: Device) -> None:
    counts = load("mandelbrot").run(9, 12, limit=30)
    assert counts[5, 9] == 30  # beside the origin
    assert counts[0, 0] <= 1
    assert counts.shape == (9, 12)


def test_heat(used: Device) -> None:
    expected = np.zeros((9, 9))
    expected[:, 0] = 1
    for _ in range(5):
        inner = expected[1:-1, 1:-1]
        around = expected[1:-1, :-2] + expected[1:-1, 2:] + expected[:-2, 1:-1] + expected[2:, 1:-1]
        expected[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    assert np.allclose(load("heat").run(9, 5), expected, atol=1e-6)


def test_heat_fit(used: Device) -> None:
    found, off = load("heat_fit").main(n=20, steps=4, rounds=25)
    assert found.conductivity == pytest.approx(0.8, rel=0.05)
    assert found.loss == pytest.approx(0.1, abs=0.05)
    assert off < 1e-3


def test_target(used: Device) -> None:
    misses = load("target").main(n=12, steps=5, rounds=15)
    assert misses[-1] < 0.2 * misses[0]


def test_own_layer(used: Device) -> None:
    example = load("own_layer")
    losses = example.with_nn(count=16, epochs=4, features=8)
    assert losses[-1] < 0.9 * losses[0]
    if importlib.util.find_spec("torch") and not used.interprets:
        losses = example.with_torch(count=16, epochs=20, features=8)
        assert losses[-1] < 0.9 * losses[0]


def test_wave(used: Device) -> None:
    told, difference = load("wave").main(n=12, steps=6)
    assert told == pytest.approx(difference, rel=2e-2, abs=1e-5)


def test_nbody(used: Device) -> None:
    before, after = load("nbody").run(70, 3)
    assert after == pytest.approx(before, rel=1e-3)
    assert after != before
    assert load("nbody").run(70, 0) == (before, before)


def test_histogram(used: Device) -> None:
    values = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    expected, _ = np.histogram(np.clip(values, -1.999, 1.999), 10, (-2, 2))
    found = load("histogram").run(pt.xp().asarray(values), 10, -2.0, 2.0)
    assert np.array_equal(found, expected)


def test_bitonic_sort(used: Device) -> None:
    module = load("bitonic_sort")
    values = pt.random.Generator(3).uniform(64)
    expected = np.sort(pt.to_numpy(values))
    module.sort(values)
    assert np.array_equal(pt.to_numpy(values), expected)
    with pytest.raises(ValueError, match="power of two"):
        module.sort(values[:6])


def test_spmv(used: Device) -> None:
    matrix = scipy.sparse.random_array((20, 30), density=0.2, rng=1, dtype=np.float32, format="csr")
    x = np.linspace(-1, 1, 30, dtype=np.float32)
    assert np.allclose(load("spmv").run(matrix, x), matrix @ x, atol=1e-6)


def test_sparse_solver(used: Device) -> None:
    assert load("sparse_solver").run(9) == pytest.approx(0.0736, rel=0.02)


def test_softmax(used: Device) -> None:
    x = np.random.default_rng(2).standard_normal((5, 100)).astype(np.float32) * 20
    expected = np.exp(x.astype(float) - x.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    assert np.allclose(load("softmax").run(pt.xp().asarray(x)), expected, atol=1e-6)


def test_monte_carlo(used: Device) -> None:
    module = load("monte_carlo")
    assert module.run(16) == pytest.approx(module.formula(), abs=1.0)


def test_kmeans(used: Device) -> None:
    module = load("kmeans")
    centres, nearest = module.run(module.blobs(400), 4, 4)
    assert np.allclose(centres, [[0, 0], [0, 6], [6, 0], [6, 6]], atol=0.5)
    assert np.array_equal(nearest[:4], [0, 1, 2, 3])


def test_conjugate_gradients(used: Device) -> None:
    module = load("conjugate_gradients")
    b = pt.random.Generator(1).normal((6, 7))
    x, steps = module.solve(b)
    assert steps <= 42
    assert np.allclose(pt.to_numpy(module.product(x)), pt.to_numpy(b), atol=1e-3)


def test_pca(used: Device) -> None:
    module = load("pca")
    points = module.cloud(200, 4)
    directions, variances = module.components(pt.xp().asarray(points), 2)
    expected, vectors = np.linalg.eigh(np.cov(points.T))
    assert np.allclose(pt.to_numpy(variances), expected[:-3:-1], rtol=1e-3)
    along = np.abs((np.asarray(pt.to_numpy(directions)) * vectors.T[:-3:-1]).sum(1))
    assert np.allclose(along, 1, atol=1e-3)


def test_svd_image(used: Device) -> None:
    module = load("svd_image")
    image = module.picture(8)
    sigma = module.run(image)
    assert np.allclose(sigma, np.linalg.svd(image, compute_uv=False), atol=1e-5)
    assert module.held(sigma, 8) == pytest.approx(1)


@pytest.mark.needs_compiler
def test_train(used: Device) -> None:
    _, right = load("train").run(200, 60)
    assert right > 0.9


@pytest.mark.needs_compiler
def test_digits(used: Device) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is missing, which has the images")
    module = load("digits")
    train, test = module.digits()
    few = train[0][:800], train[1][:800]
    history = module.train(module.lenet(), few, test, epochs=4)
    assert history.validation_accuracy[-1] > 0.85


@pytest.mark.needs_compiler
def test_residual(used: Device) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is missing, which has the images")
    module = load("residual")
    images = module.digits_example()
    history = module.train(module.network(8), images, epochs=2)
    assert history.validation_accuracy[-1] > 0.7


def test_mobile(used: Device) -> None:
    module = load("mobile")
    images = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    with pt.use("simulator"):
        state = module.made_up(module.network())
    model, shares = module.predicted(state, images)
    exact = numpy_layers.forward(model.layers, model.state_dict(), images)
    np.testing.assert_allclose(shares, exact, atol=1e-4)


@pytest.mark.needs_compiler
def test_forecast(used: Device) -> None:
    _, test = load("forecast").run("xavier-momentum")
    assert test.model.mse < test.baselines["window mean"].mse


@pytest.mark.needs_processor
def test_notebooks_are_the_examples_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", plt.show)  # is put back, whatever the cells do
    build = load("build", FOLDER / "notebooks")
    assert {file.stem for file in (FOLDER / "notebooks").glob("*.ipynb")} == set(build.ENDS)
    for name in build.ENDS:
        held = json.loads((FOLDER / "notebooks" / f"{name}.ipynb").read_text())
        wanted = build.cells(name)
        found = [(cell["cell_type"], "".join(cell["source"])) for cell in held["cells"]]
        assert found == wanted, f"{name}.ipynb is not what build.py makes of {name}.py"
        *_, last = build.outputs([text for kind, text in wanted if kind == "code"], name)
        assert [output["output_type"] for output in last] == ["stream", "display_data"]


@pytest.mark.needs_compiler
def test_dask_workers(device: Device) -> None:
    """On threads: two workers take seconds to begin."""
    pytest.importorskip("dask")
    example = load("dask_workers")
    if device.backend == "sycl":
        pytest.skip("Dask cannot join dpnp's arrays")
    x = example.field(24, 6, 5)
    host = x.compute()
    expected = abs(host - host.mean(axis=0)).max(axis=0)
    found = example.anomalies(x, device.name).compute(scheduler="synchronous")
    np.testing.assert_allclose(found, expected, rtol=1e-5)

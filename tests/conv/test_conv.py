"""Convolutions agree with SciPy's on every device, by every algorithm, in every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.conv import conv2d, prepare, workspace_size
from portable.conv.winograd.points import transforms
from portable.lang.launch import launch

from .reference import Case, bounds, results

WINOGRAD = [
    Case((2, 3, 9, 7), (5, 3, 3, 3), padding=(1, 1)),
    Case((1, 4, 5, 14), (6, 2, 3, 3), padding=(0, 2), groups=2),
    Case((3, 1, 3, 3), (1, 1, 3, 3)),
    Case((1, 3, 9, 14), (4, 3, 5, 5), padding=(2, 1)),
    Case((1, 2, 9, 8), (3, 2, 7, 7), padding=(3, 3)),
]
DIRECT = [
    Case((2, 4, 9, 11), (6, 2, 3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
    Case((1, 3, 8, 8), (40, 3, 1, 1)),
    Case((2, 2, 6, 5), (3, 2, 6, 5)),
]
ERRORS = {
    "winograd2": 1e-6,
    **dict.fromkeys(("auto", "winograd4", "winograd5", "winograd6", "direct"), 1e-5),
}


def there(device: Device, x: Any) -> Any:
    return pt.asarray(x, device=device)


def check(device: Device, case: Case, algorithm: Any, dtype: Any = np.float32) -> None:
    x, w = case.images(dtype)
    found = conv2d(there(device, x), there(device, w), algorithm=algorithm, **case.settings)
    error = np.abs(pt.to_numpy(found) - results(case, x, w)).max() / bounds(case, x, w)
    single = ERRORS[algorithm] if max(w.shape[2:]) <= 5 else 1e-5  # of as many points as winograd6
    tolerance = {"float16": 1e-3, "float32": single, "float64": 1e-13}
    assert found.dtype == there(device, x).dtype
    assert error < tolerance[np.dtype(dtype).name]


@pytest.mark.parametrize(
    ("case", "algorithm"),
    [
        (WINOGRAD[0], "winograd2"),
        (WINOGRAD[0], "winograd4"),
        (WINOGRAD[1], "winograd5"),
        (WINOGRAD[2], "winograd6"),
        (WINOGRAD[3], "winograd4"),
        (WINOGRAD[4], "winograd2"),
    ],
    ids=["padded2", "padded4", "groups5", "one6", "five taps", "seven taps"],
)
def test_winograd(device: Device, case: Case, algorithm: str) -> None:
    check(device, case, algorithm)


def test_calls_after_the_first_are_recognised_by_their_plans(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.interprets:
        pytest.skip("launches of an interpreter are not recognised")
    x, w = (there(device, a) for a in WINOGRAD[0].images(np.float32))
    for _ in range(5):  # a function that recognises launches is made after the fourth of a plan
        conv2d(x, w, algorithm="winograd4", **WINOGRAD[0].settings)
    # What constants mean is a tenth of a millisecond to find out.
    monkeypatch.delattr(launch, "constant_key")
    conv2d(x, w, algorithm="winograd4", **WINOGRAD[0].settings)


@pytest.mark.parametrize("case", DIRECT, ids=["strides", "one_tap", "all"])
def test_direct(device: Device, case: Case) -> None:
    check(device, case, "direct")


@pytest.mark.parametrize("algorithm", ["winograd4", "direct"])
def test_half_precision_is_summed_in_single(device: Device, algorithm: str) -> None:
    check(device, WINOGRAD[0], algorithm, np.float16)


@pytest.mark.needs_float64
@pytest.mark.parametrize("algorithm", ["winograd6", "direct"])
def test_double_precision(device: Device, algorithm: str) -> None:
    check(device, WINOGRAD[0], algorithm, np.float64)


@pytest.mark.parametrize("algorithm", ["winograd4", "direct"])
def test_channels_last_with_bias_activation_and_out(device: Device, algorithm: Any) -> None:
    case = WINOGRAD[0]
    x, w = case.images(np.float32)
    bias = np.linspace(-2, 2, w.shape[0], dtype=np.float32)
    images = there(device, np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    out = there(device, np.empty((2, 9, 7, 5), np.float32))
    found = conv2d(
        images,
        there(device, w),
        bias=there(device, bias),
        activation="relu",
        layout="NHWC",
        algorithm=algorithm,
        out=out,
        **case.settings,
    )
    assert found is out
    expected = np.maximum(results(case, x, w) + bias[:, None, None], 0).transpose(0, 2, 3, 1)
    assert np.allclose(pt.to_numpy(out), expected, atol=1e-4)


def test_a_small_workspace_takes_tiles_in_batches(device: Device) -> None:
    case = Case((3, 2, 37, 25), (3, 2, 3, 3))
    x, w = case.images(np.float32)
    images, filters = there(device, x), there(device, w)

    def prepared(count: int) -> Any:
        workspace = there(device, np.empty(count, np.float32))
        return prepare(x.shape, filters, algorithm="winograd2", workspace=workspace)

    with pytest.raises(ValueError, match="4 bytes; the fewest that are of use here are") as raised:
        prepared(1)
    least, best = (
        int(word.strip(","))
        for word in str(raised.value).split()
        if word[0] in "123456789" and word != "4"
    )
    with pt.use(device):
        assert workspace_size(x.shape, w.shape, algorithm="winograd2") == best > least
    plan = prepared(least // 4)
    for _ in range(2):
        assert np.allclose(pt.to_numpy(plan(images)), results(case, x, w), atol=1e-4)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_shapes(device: Device, seed: int) -> None:
    """Of any window, by whatever is chosen for it."""
    random = np.random.default_rng(seed)
    groups, *pairs = (
        int(random.integers(1, 3)),
        *random.integers((1, 1, 0, 1), (4, 3, 3, 3), (2, 4)),
    )
    taps, stride, padding, dilation = ((int(a), int(b)) for a, b in zip(*pairs, strict=True))
    n, channels, filters, more, wide = (int(a) for a in random.integers(1, (4, 6, 20, 9, 9)))
    height, width = (
        d * t + extra for d, t, extra in zip(dilation, taps, (more, wide), strict=True)
    )
    x, w = (n, groups * channels, height, width), (groups * filters, channels, *taps)
    check(device, Case(x, w, stride, padding, dilation, groups), "auto")


def test_no_images_and_no_channels(device: Device) -> None:
    w = there(device, np.ones((3, 2, 3, 3), np.float32))
    assert conv2d(there(device, np.ones((0, 2, 4, 4), np.float32)), w).shape == (0, 3, 2, 2)
    x, none = np.ones((1, 0, 4, 4), np.float32), np.ones((3, 0, 3, 3), np.float32)
    for algorithm in ("winograd2", "direct"):
        found = conv2d(there(device, x), there(device, none), algorithm=algorithm)  # type: ignore[arg-type]
        assert not pt.to_numpy(found).any()


@pytest.mark.parametrize("m", range(2, 7))
def test_transforms_are_exact(m: int) -> None:
    by = transforms(m, 3)
    random = np.random.default_rng(m)
    line, taps = random.integers(-9, 9, m + 2), random.integers(-9, 9, 3)
    filtered, inputs = (
        [sum(c * values[k] for k, c in row) for row in rows]
        for rows, values in ((by.filter, taps), (by.input, line))
    )
    products = [a * b for a, b in zip(filtered, inputs, strict=True)]
    found = [sum(c * products[k] for k, c in row) for row in by.output]
    assert np.allclose(found, np.correlate(line, taps, "valid"), rtol=0, atol=1e-10)


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    ("x", "w", "settings", "words"),
    [
        ((1, 3, 8, 8), (4, 2, 3, 3), {}, "take 2 channels"),
        ((1, 3, 8, 8), (4, 1, 3, 3), {"groups": 2}, "groups=2 does not divide 3 channels"),
        ((1, 3, 2, 8), (4, 3, 3, 3), {}, "larger than images of 2 x 8"),
        ((3, 8, 8), (4, 3, 3, 3), {}, "not shapes"),
        ((1, 3, 8, 8), (4, 3, 0, 3), {}, "no taps"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"stride": 0}, "stride=0"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": (1, -1)}, r"padding=\(1, -1\)"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"layout": "CHWN"}, "CHWN"),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"algorithm": "fft"}, "algorithm='fft'"),
    ],
)
def test_mistakes(x: Any, w: Any, settings: Any, words: str) -> None:
    with pt.use("cpu"), pytest.raises(ValueError, match=words):
        conv2d(np.zeros(x, np.float32), np.zeros(w, np.float32), **settings)


def test_a_setting_that_there_is_not() -> None:
    no_pad = pytest.raises(TypeError, match="no setting pad; they have stride, padding")
    with pt.use("simulator"), no_pad:
        conv2d(np.zeros((1, 3, 8, 8)), np.zeros((4, 3, 3, 3)), pad=1)  # type: ignore[call-arg]


@pytest.mark.needs_processor
def test_mistakes_of_arrays() -> None:
    x, w = np.zeros((1, 3, 8, 8), np.float32), np.zeros((4, 3, 3, 3), np.float32)
    with pt.use("cpu"):
        with pytest.raises(TypeError, match="one dtype"):
            conv2d(x, w, bias=np.zeros(4))
        with pytest.raises(TypeError, match="images of float64 by filters of float32"):
            conv2d(x.astype(np.float64), w)
        with pytest.raises(TypeError, match=r"stride \(2, 2\)"):
            conv2d(x, w, stride=2, algorithm="winograd4")
        with pytest.raises(ValueError, match="bias of shape"):
            conv2d(x, w, bias=np.zeros(3, np.float32))
        with pytest.raises(ValueError, match="out has shape"):
            conv2d(x, w, out=np.zeros((1, 4, 5, 6), np.float32))
        both = np.zeros((1, 4, 8, 8), np.float32)
        with pytest.raises(ValueError, match="out overlaps x"):
            conv2d(both[:, :3], w, out=both[:, :, :6, :6])
        with pytest.raises(ValueError, match="prepared for"):
            prepare(x.shape, w)(x[:, :, 1:])


@pytest.mark.parametrize("name", ["x", "w", "bias"])
def test_a_workspace_that_overlaps_an_operand(device: Device, name: str) -> None:
    """Overwriting it would give other results, and other images to whom they belong."""
    space = device.namespace()
    with pt.use(device):
        size = workspace_size((2, 3, 16, 16), (4, 3, 3, 3), algorithm="winograd2") // 4
    room = there(device, np.zeros(size + 2000, np.float32))
    shapes = {"x": (2, 3, 16, 16), "w": (4, 3, 3, 3), "bias": (4,)}
    given: dict[str, Any] = {
        key: there(device, np.ones(shape, np.float32)) for key, shape in shapes.items()
    }
    given[name] = space.reshape(room[size - 2 : size - 2 + np.prod(shapes[name])], shapes[name])
    with pytest.raises(ValueError, match=f"workspace overlaps {name}"):
        conv2d(**given, algorithm="winograd2", workspace=room[:size])
    assert (pt.to_numpy(given["x"]) == (0 if name == "x" else 1)).all()


def test_a_workspace_with_steps_or_read_only() -> None:
    x, w = np.ones((1, 2, 9, 9), np.float32), np.ones((2, 2, 3, 3), np.float32)
    room = np.zeros(100_000, np.float32)
    with pytest.raises(ValueError, match="workspace has steps"):
        conv2d(x, w, algorithm="winograd2", workspace=room[::2])
    room.flags.writeable = False
    with pytest.raises(ValueError, match="workspace is read-only"):
        conv2d(x, w, algorithm="winograd2", workspace=room)


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd4", "direct"])
@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, 3, 8, 8)])
def test_no_workspace_for_no_images(device: Device, algorithm: Any, shape: tuple[int, ...]) -> None:
    for filters in (0, 4):
        size = workspace_size(shape, (filters, 3, 3, 3), algorithm=algorithm, device=device)
        assert size == 0 or (shape[0] and filters)


@pytest.mark.parametrize(
    "given", [{"stride": 1.5}, {"padding": "1"}, {"dilation": (1, 2.0)}, {"groups": 1.5}]
)
def test_settings_that_are_no_integers(given: Any) -> None:
    x, w = np.ones((1, 3, 8, 8), np.float32), np.ones((2, 3, 3, 3), np.float32)
    with pytest.raises(ValueError, match=r"it takes an integer from \d on"):
        conv2d(x, w, **given)
    as_numpy = conv2d(x, w, stride=np.int64(2), groups=np.int8(1))
    assert as_numpy.shape == conv2d(x, w, stride=2).shape

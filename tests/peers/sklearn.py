"""scikit-learn's estimators on arrays of a device: ``python -m tests.peers.sklearn --device D``.

Those are run that its documentation says take arrays of any conforming library
(``array_api_dispatch=True``), and compared with what they give for NumPy's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

import click
import numpy as np

import portable as pt

_ROWS: Final = 400
_COLUMNS: Final = 12
_TOLERANCE: Final = 2e-3


class Case(NamedTuple):
    """An estimator or function.

    Attributes
    ----------
    name : str
        Its name in `module`.
    module : str
        Of scikit-learn.
    made : dict
        What an estimator is made with.
    gives : str
        What is compared: a method of the fitted estimator, called with its samples, or "function".
    classes : bool
        Whether the targets are classes.
    """

    name: str
    module: str
    made: dict[str, Any] = {}  # noqa: RUF012 - none is changed
    gives: str = "transform"
    classes: bool = False


CASES: Final[tuple[Case, ...]] = (
    Case("StandardScaler", "preprocessing"),
    Case("MinMaxScaler", "preprocessing"),
    Case("MaxAbsScaler", "preprocessing"),
    Case("Normalizer", "preprocessing"),
    Case("Binarizer", "preprocessing", {"threshold": 0.1}),
    Case("PolynomialFeatures", "preprocessing", {"degree": 2}),
    Case("KernelCenterer", "preprocessing"),
    Case("PCA", "decomposition", {"n_components": 3, "svd_solver": "full"}),
    Case("PCA", "decomposition", {"n_components": 3, "svd_solver": "covariance_eigh"}),
    Case(
        "PCA",
        "decomposition",
        {
            "n_components": 3,
            "svd_solver": "randomized",
            "power_iteration_normalizer": "QR",
            "random_state": 0,
        },
    ),
    Case("Nystroem", "kernel_approximation", {"n_components": 20, "random_state": 0}),
    Case("Ridge", "linear_model", {"solver": "svd"}, "predict"),
    Case("RidgeCV", "linear_model", {}, "predict"),
    Case("RidgeClassifier", "linear_model", {"solver": "svd"}, "predict", True),
    Case("LogisticRegression", "linear_model", {"solver": "lbfgs"}, "predict_proba", True),
    Case("LinearDiscriminantAnalysis", "discriminant_analysis", {}, "predict", True),
    Case("GaussianNB", "naive_bayes", {}, "predict_proba", True),
    Case(
        "GaussianMixture",
        "mixture",
        {"n_components": 2, "init_params": "random", "random_state": 0},
        "score_samples",
    ),
    Case("LabelEncoder", "preprocessing", {}, "labels", True),
    *(
        Case(name, "metrics", {}, "scores", classes)
        for name, classes in (
            ("accuracy_score", True),
            ("confusion_matrix", True),
            ("f1_score", True),
            ("precision_score", True),
            ("recall_score", True),
            ("zero_one_loss", True),
            ("mean_squared_error", False),
            ("mean_absolute_error", False),
            ("r2_score", False),
            ("explained_variance_score", False),
            ("max_error", False),
            ("median_absolute_error", False),
        )
    ),
    *(
        Case(name, "metrics.pairwise", {}, "pairs")
        for name in (
            "euclidean_distances",
            "cosine_similarity",
            "linear_kernel",
            "polynomial_kernel",
            "rbf_kernel",
            "sigmoid_kernel",
            "laplacian_kernel",
            "chi2_kernel",
        )
    ),
)


def outcomes(device: str) -> Iterator[tuple[Case, str]]:
    """For each case what went wrong: "" where the results are those for NumPy's arrays.

    Parameters
    ----------
    device : str
        A device with arrays of its own.
    """
    os.environ["SCIPY_ARRAY_API"] = "1"
    config: Callable[..., Any] = import_module("sklearn").config_context
    samples, targets, labels = _data()
    for case in CASES:
        y = labels if case.classes else targets
        wanted = _result(case, abs(samples), y)
        try:
            with config(array_api_dispatch=True):
                there = (pt.asarray(x, device=device) for x in (abs(samples), y))
                found = _result(case, *there)
        except Exception as error:  # noqa: BLE001 - whatever scikit-learn meets is what is told
            yield case, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            continue
        host = np.asarray(pt.to_numpy(found) if hasattr(found, "__dlpack_device__") else found)
        near = np.allclose(abs(host), abs(wanted), rtol=_TOLERANCE, atol=_TOLERANCE)
        yield case, "" if near else f"off by {abs(abs(host) - abs(wanted)).max():.2g}"


def _data() -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    samples = random.standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
    targets = samples @ random.standard_normal(_COLUMNS).astype(np.float32)
    return samples, targets, (targets > 0).astype(np.int64)


def _result(case: Case, x: Any, y: Any) -> Any:
    made = getattr(import_module(f"sklearn.{case.module}"), case.name)
    if case.gives == "scores":
        return made(y, y[::-1] if case.classes else y * 1.5)
    if case.gives == "pairs":
        return made(x, x[:50])
    estimator = made(**case.made)
    if case.gives == "labels":
        return estimator.fit(y).transform(y)
    if case.name == "KernelCenterer":
        x = x @ x.T
    fitted = estimator.fit(x, y) if case.gives.startswith("predict") else estimator.fit(x)
    return getattr(fitted, case.gives)(x)


@click.command()
@click.option("--device", required=True, help="Which device's arrays, such as opencl:intel.")
def main(device: str) -> None:
    """Run scikit-learn's estimators on arrays of a device."""
    failed = 0
    for case, reason in outcomes(device):
        shown = ", ".join(f"{k}={v!r}" for k, v in case.made.items())
        click.echo(f"{case.name}({shown}): {reason or 'as NumPy'}")
        failed += bool(reason)
    click.echo(f"{len(CASES) - failed} of {len(CASES)} as NumPy")


if __name__ == "__main__":
    main()

"""The bandwidth of a satellite link, forecast from its last ten values.

The same as ``portable forecast train``, in code: the synthetic trace that is shipped, a network,
and its errors beside those of persistence, which says that the next value is like the last.
"""

from __future__ import annotations

from pathlib import Path

from portable import forecast


def run(preset: str = forecast.DEFAULT) -> tuple[forecast.Forecaster, forecast.Evaluation]:
    """A trained forecast and its test."""
    trace = forecast.default_trace()
    model = forecast.train(trace, preset=preset, progress=False)
    return model, forecast.evaluate(model, trace)


def main() -> None:
    """Trains, tests, forecasts and draws."""
    model, test = run()
    print(f"{model.network}: MSE {test.model.mse:.5f}, of persistence {test.persistence.mse:.5f}")
    values = forecast.default_trace()
    print(f"after {values[-1]:.0f} Mbit/s come {model.forecast(values[-10:]).values[0, 0]:.0f}")
    import matplotlib.pyplot as plt

    shown = slice(-200, None)
    scaling = test.split.scaling
    plt.plot(scaling.undo(test.split.test.targets[shown, 0]), label="truth")
    plt.plot(scaling.undo(test.forecast.values[shown, 0]), label="forecast")
    plt.xlabel("interval")
    plt.ylabel("Mbit/s")
    plt.legend()
    picture = Path("forecast.png")
    plt.savefig(picture, dpi=120)
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()

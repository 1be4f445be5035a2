"""Faults in the training of networks."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import fault, without_barrier

FUSED: Final = "portable.nn.fused:"

NETWORKS: Final = (
    without_barrier(
        FUSED + "train_epochs",
        1,
        2,
        "a layer begins before the one below is done",
        "training_in_one_launch",
    ),
    without_barrier(
        FUSED + "gradients_of_layers",
        0,
        2,
        "slopes are overwritten while gradients read them",
        "training_in_one_launch",
    ),
    without_barrier(
        FUSED + "gradients_of_layers",
        1,
        2,
        "gradients are made of slopes that are not there",
        "training_in_one_launch",
    ),
    without_barrier(
        FUSED + "loss_of_rows",
        0,
        1,
        "gradients begin before the loss is done",
        "training_in_one_launch",
    ),
    fault(
        "samples beyond the batch are left as they were",
        FUSED + "load_rows",
        "values[k, r] = 0",
        "pass",
        "training_in_one_launch",
        "uninitialised",
    ),
    without_barrier(
        FUSED + "forward_rows",
        0,
        2,
        "a forward pass begins before its samples are there",
        "forward_passes_in_one_launch",
    ),
    fault(
        "rows beyond the samples are written",
        FUSED + "forward_rows",
        "r < count",
        "r <= count",
        "forward_passes_in_one_launch",
        "bounds",
    ),
    without_barrier(
        "portable.lang.library.collectives:_begin",
        0,
        1,
        "a row's exponentials are summed where its greatest is still being read",
        "losses_of_classes",
    ),
    fault(
        "the last section of slopes is cut short",
        "portable.nn.stages.linear:slopes_back",
        "kl.minimum(first + rows, slopes.shape[0])",
        "kl.minimum(first + rows, slopes.shape[0] - 1)",
        "training_layer_by_layer",
        "result",
    ),
    without_barrier(
        "portable.linalg.products.rows:copy_into_rows",
        0,
        1,
        "a tile is written out before it is there",
        "transposes_of_weights",
    ),
)

"""Convolution of images, on every device: by Winograd's minimal filtering, and directly.

`conv2d` is called with images and filters; `prepare` keeps transformed filters and workspace for
images of one shape. The gradients are those that training needs. `conv1d` and `conv3d` convolve
lines and volumes by the same kernels, `conv_transpose2d` is the gradient by images as a layer.
"""

from portable.conv.convolution import Convolution, conv2d, prepare, workspace_size
from portable.conv.dimensions import (
    conv1d,
    conv1d_input_gradient,
    conv1d_weight_gradient,
    conv3d,
    conv3d_input_gradient,
    conv3d_weight_gradient,
)
from portable.conv.gradients import (
    conv2d_input_gradient,
    conv2d_weight_gradient,
    prepare_input_gradient,
    prepare_weight_gradient,
)
from portable.conv.shared import PreparedConvolution, SharedConvolution, prepare_shared
from portable.conv.transposed import conv_transpose2d

__all__ = [
    "Convolution",
    "PreparedConvolution",
    "SharedConvolution",
    "conv1d",
    "conv1d_input_gradient",
    "conv1d_weight_gradient",
    "conv2d",
    "conv2d_input_gradient",
    "conv2d_weight_gradient",
    "conv3d",
    "conv3d_input_gradient",
    "conv3d_weight_gradient",
    "conv_transpose2d",
    "prepare",
    "prepare_input_gradient",
    "prepare_shared",
    "prepare_weight_gradient",
    "workspace_size",
]

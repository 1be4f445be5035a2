"""Convolution of images, on every device: by Winograd's minimal filtering, and directly.

`conv2d` is called with images and filters; `prepare` keeps transformed filters and workspace for
images of one shape. The gradients are those that training needs.
"""

from portable.conv.convolution import Convolution, conv2d, prepare, workspace_size
from portable.conv.gradients import conv2d_input_gradient, conv2d_weight_gradient
from portable.conv.shared import PreparedConvolution, SharedConvolution, prepare_shared

__all__ = [
    "Convolution",
    "PreparedConvolution",
    "SharedConvolution",
    "conv2d",
    "conv2d_input_gradient",
    "conv2d_weight_gradient",
    "prepare",
    "prepare_shared",
    "workspace_size",
]

"""Layers at work: what each enqueues on a device, forward and backward."""

from portable.nn.stages.building import stages_of
from portable.nn.stages.passes import ForwardPass, TrainingPass
from portable.nn.stages.stage import Stage

__all__ = ["ForwardPass", "Stage", "TrainingPass", "stages_of"]

"""Layers at work: what each enqueues on a device, forward and backward."""

from portable.nn.stages.building import Build, stages_of
from portable.nn.stages.passes import ForwardPass, TrainingPass
from portable.nn.stages.stage import Stage

__all__ = ["Build", "ForwardPass", "Stage", "TrainingPass", "stages_of"]

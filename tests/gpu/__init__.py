"""The suite on a GPU as no ordinary run has it: under a sanitizer, and with perturbed timing.

``python -m tests.gpu.sanitize --help`` and ``python -m tests.gpu.perturb --help`` say how.
"""

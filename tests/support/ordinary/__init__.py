"""Every public function at the sizes that people use, beside NumPy.

``python -m tests.support.ordinary --device opencl:intel`` runs about 2,000 cases: functions by
dtypes by shapes. `model` says what a case is, `arrays` and `others` list the functions, `run` makes
and checks them.
"""

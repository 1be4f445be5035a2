"""Running totals along an axis.

`scanning` chooses: blocks for processors (`block_kernels`), one pass where workgroups may wait for
each other (`lookback_kernels`, who tell each other by `board_kernels`), else two (`scan_kernels`).
"""

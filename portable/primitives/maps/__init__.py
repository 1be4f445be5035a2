"""Element-wise functions of arrays: how work is shared among work-items, and launched."""

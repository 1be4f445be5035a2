"""Convolutions as sums over filters, from memory or from boxes of tiles.

On GPUs `boxes` are products of tiles, `parted` those of parts of numbers, `windows` sums for few
filters. On processors `lanes` are pixels, or channels in `depthwise` ones. `grouped` is for few
channels a group, `product` for one tap. `gathered` and `adding` make gradients by filters.
"""

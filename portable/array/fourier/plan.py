"""How a transform is cut into passes over memory, and those into stages; no device needed."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

LARGEST_PRIME: Final = 13
_LONG: Final = 64


@lru_cache(maxsize=1024)
def prime_factors(n: int) -> tuple[int, ...]:
    """The prime factors of a positive number, ascending."""
    factors = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return (*factors, n) if n > 1 else tuple(factors)


def is_smooth(n: int) -> bool:
    """Whether all prime factors of a number have a butterfly."""
    return all(p <= LARGEST_PRIME for p in prime_factors(n))


@lru_cache(maxsize=1024)
def next_smooth(n: int) -> int:
    """The least number not below `n` whose prime factors are 2, 3 and 5, 8 dividing it if long."""
    best = 1 << (n - 1).bit_length()
    threes = 1
    while threes < best:
        odd = threes
        while odd < best:
            twos = 1 << (-(-n // odd) - 1).bit_length()
            best = min(best, odd * (twos if n < _LONG else max(twos, 8)))
            odd *= 5
        threes *= 3
    return best


@lru_cache(maxsize=1024)
def radices(n: int, largest: int, *, mixed: bool = True) -> tuple[int, ...]:
    """Radices whose product is `n`, as few as possible, not above `largest` unless they are prime.

    Powers of two are shared evenly, so that stages are alike, and multiplied by odd primes if
    `mixed`; ``(1,)`` for one element.

    Parameters
    ----------
    n : int
        The product.
    largest : int
        The greatest radix but for primes.
    mixed : bool
        Whether powers of two are multiplied by odd primes.
    """
    primes = prime_factors(n)
    twos = primes.count(2)
    most = largest.bit_length() - 1
    stages = -(-twos // most)
    exponents = [1 << (twos // stages + (i < twos % stages)) for i in range(stages)]
    for p in reversed(primes[twos:]):
        partner = next((i for i, r in enumerate(exponents) if mixed and r * p <= largest), None)
        if partner is None:
            exponents.append(p)
        else:
            exponents[partner] *= p
    return tuple(sorted(exponents, reverse=True)) or (1,)


@lru_cache(maxsize=1024)
def balanced(n: int, most: int) -> tuple[int, ...]:
    """`n` as a product of as few factors of at most `most` as possible, which are much alike.

    Each prime factor is at most `most`.
    """
    primes = sorted(prime_factors(n), reverse=True)
    for count in range(1, len(primes) + 1):
        shares = _shared(primes, count)
        if max(shares) <= most:
            return tuple(sorted(shares, reverse=True))
    return (n,)


def _shared(primes: list[int], count: int) -> list[int]:
    """Prime factors dealt out, each to the smallest product so far."""
    shares = [1] * count
    for p in primes:
        shares[shares.index(min(shares))] *= p
    assert prod(shares) == prod(primes)
    return shares

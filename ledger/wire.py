"""Why fields do not fit their kind: the one place with cattrs, loaded once something does not fit.

cattrs turns ``None`` into ``"None"`` and ``2.9`` into ``2`` unless told otherwise, so every leaf has a strict hook
here, the very taker that ``exact`` has for it.
"""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Any, TypeVar

from cattrs import BaseValidationError, Converter, transform_error

from ledger.exact import LEAVES, UnfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def _hook(take: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: take(value)


def _strict() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    for leaf, take in LEAVES.items():
        # A class by itself, before what cattrs has for it; what is no class by what it equals.
        if isinstance(leaf, type):
            converter.register_structure_hook(leaf, _hook(take))
        else:
            converter.register_structure_hook_func(partial(eq, leaf), _hook(take))
    return converter


_converter = _strict()


def structured(fields: Mapping[str, Any], cls: type[T]) -> T:
    """Return what a class makes of these fields.

    Raises:
        UnfitError: They do not fit it; the error tells where.
    """
    try:
        return _converter.structure(fields, cls)
    except BaseValidationError as error:
        unfit = error
    raise UnfitError(lambda path: str(transform_error(unfit, path=path)[0])) from unfit

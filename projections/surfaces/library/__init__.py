"""The Python library: open a project's ledger, record, and read it. README.md of this folder is its page.

Every hook imports this package, so it loads nothing by itself: a name is loaded from its module when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.api import *  # noqa: F403 - the names of its __all__
else:

    def __getattr__(name: str) -> object:
        """Return a name of the library, which is loaded only now."""
        from importlib import import_module

        # `from tallybook import compat` asks for a module here first.
        if not name.islower() or name == "open":
            api = import_module("tallybook.api")
            if name in api.__all__:
                value = globals()[name] = getattr(api, name)
                return value
        raise AttributeError(f"module 'tallybook' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the library."""
    from tallybook.api import __all__ as names

    return sorted({*globals(), *names})

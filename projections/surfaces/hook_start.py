"""How a hook's process starts: its modules are taken from where they are known to be, and no garbage is looked for.

Python asks for each module in every folder of its path, looks several times at the file that it finds, and holds a lock
meanwhile: for a process that lives as short as this one that is half of its work. What is taken here is what Python
compiled, where that is of the source as it stands; all else is left to Python, which compiles it and keeps that for the
next time. The agent's settings start this module, and so does the installed command. Standard library only.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType
    from typing import Any, NoReturn

PACKAGES = frozenset({"ledger", "ledger.backends", "projections", "projections.surfaces", "prompts"})

BEFORE: dict[str, tuple[str, ...]] = {
    "projections.surfaces.hook": (
        *("ledger", "ledger.bare", "ledger.light", "ledger.clock", "ledger.errors", "ledger.rights", "ledger.disk"),
        *("projections", "projections.surfaces", "projections.surfaces.hook_payload"),
        "projections.surfaces.hook_limits",
        *("projections.surfaces.worktree", "projections.surfaces.project"),
    ),
    "projections.surfaces.hook_record": (
        *("ledger.names", "ledger.line", "ledger.ends", "ledger.head", "ledger.caches", "ledger.keys"),
        "ledger.receipts",
        *("ledger.backends", "ledger.backends.files", "ledger.backends.jsonl"),
    ),
    "projections.inject": (
        *("ledger.names", "ledger.line", "ledger.ends", "ledger.caches"),
        *("prompts", "projections.surfaces.settings", "projections.surfaces.hook_worker"),
    ),
}
"""Module → what is loaded with it of ours, each behind what it loads itself."""

_known: dict[str, Any] = {}
# What stands before the code: the version of the format and its kind, then time and size of the source.
_HEADER_BYTES = 16
# What is longer is left to Python.
_MAX_BYTES = 64 * 1024


def main(arguments: Sequence[str] = ()) -> NoReturn:
    """Handle what stands on standard input, and end the process with 0.

    Args:
        arguments: What stands behind ``hook`` on the command line.
    """
    here = __file__[: max(__file__.rfind("/"), __file__.rfind("\\"))]
    root = here[: -len("/projections/surfaces")]
    if "." not in __name__:
        # The settings had this module found by itself; where it stands is no folder to find any other in.
        sys.path[:] = [*(folder for folder in sys.path if folder.rstrip("/") != here), root]
    start(root)
    from projections.surfaces import hook

    hook.main(arguments)


def start(root: str) -> None:
    """Have our modules found that way from now on, where this interpreter can do that.

    Args:
        root: The folder that holds PACKAGES.
    """
    try:
        import _frozen_importlib_external as python
        import gc
        import posix  # noqa: F401 - the reader below needs it
    except ImportError:  # Windows, or another Python.
        return
    # So short a process leaves none.
    gc.disable()
    tag = sys.implementation.cache_tag
    # Elsewhere what is compiled has another name, or stands in another place, or is not kept.
    if tag and not sys.flags.optimize and not sys.pycache_prefix:
        _known.update(root=root, ending=f".{tag}.pyc", opening=python.MAGIC_NUMBER + bytes(4), python=python)
        finder: Any = sys.modules[__name__]
        sys.meta_path.insert(0, finder)
        _prepare("projections.surfaces.hook")


def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG001 - as Python asks
    """Return how a module of ours was found, None where Python is to find it; what it loads is loaded."""
    _prepare(name)
    found = _look(name)
    return found[0] if found is not None else None


def _prepare(name: str) -> None:
    for one in BEFORE.get(name, ()):
        # Where the real thing is loaded, nobody asks for what stands for it.
        if one not in sys.modules and not (one == "ledger.bare" and "os" in sys.modules):
            _load(one)


def _load(name: str) -> None:
    """Load a module of ours; what is not found stays to be loaded by whoever asks for it."""
    parent, _, own = name.rpartition(".")
    found = _look(name)
    if found is None or (parent and parent not in sys.modules):
        return
    spec, code = found
    module: Any = type(sys)(name)
    module.__spec__, module.__loader__, module.__file__, module.__package__ = (
        spec,
        spec.loader,
        spec.origin,
        spec.parent,
    )
    if name in PACKAGES:
        module.__path__ = spec.submodule_search_locations
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - what importing is
    except BaseException:
        del sys.modules[name]
        raise
    if parent:
        setattr(sys.modules[parent], own, module)


def _look(name: str) -> tuple[ModuleSpec, CodeType] | None:
    """Return how a module of ours was found, and its code; None where Python is to find it."""
    package, _, own = (name, "", "__init__") if name in PACKAGES else name.rpartition(".")
    folder = f"{_known['root']}/{package.replace('.', '/')}"
    code = _compiled(folder, own) if package in PACKAGES else None
    if code is None:
        return None
    # Python's own, which has been told what it would find.
    loader = _known["python"].SourceFileLoader(name, f"{folder}/{own}.py")
    loader.get_code = lambda _: code
    spec: Any = type(sys.__spec__)(name, loader, origin=loader.path, is_package=name in PACKAGES)
    spec.has_location = True
    spec.cached = f"{folder}/__pycache__/{own}{_known['ending']}"
    if name in PACKAGES:
        spec.submodule_search_locations.append(folder)
    return spec, code


def _compiled(folder: str, name: str) -> CodeType | None:
    """Return what Python made of a source, None where it has not, or of what the source was before."""
    import marshal
    import posix

    try:
        source = posix.stat(f"{folder}/{name}.py")
        fd = posix.open(f"{folder}/__pycache__/{name}{_known['ending']}", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            data = posix.read(fd, _MAX_BYTES)
        finally:
            posix.close(fd)
        stamp = (int(source.st_mtime) & 0xFFFFFFFF | (source.st_size & 0xFFFFFFFF) << 32).to_bytes(8, "little")
        if data[:_HEADER_BYTES] == _known["opening"] + stamp:
            code: CodeType = marshal.loads(memoryview(data)[_HEADER_BYTES:])  # noqa: S302 - as Python reads it
            return code
    except (OSError, EOFError, ValueError, TypeError):
        pass
    return None

"""Refusals of what does not fit in memory, before the memory is allocated."""

import os

FEWER_COLUMNS = "features=Recipe('scale', n_components=...)"  # in messages


def physical_memory() -> int | None:
    """Memory of the machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def refuse_beyond(what: str, n_bytes: float, cure: str, memory: float | None = None) -> None:
    """Refuse what needs more memory than the machine has; ``cure`` says what to do instead.

    ``memory`` is what may be used, if that is not all of the machine's.
    """
    most = physical_memory() if memory is None else memory
    if most is not None and n_bytes > most:
        owner = "this machine has" if memory is None else "it may use"
        raise MemoryError(
            f"{what}: a fit would take about {n_bytes / 2**30:.3g} GiB of memory, and {owner} "
            f"{most / 2**30:.3g}. {cure}"
        )

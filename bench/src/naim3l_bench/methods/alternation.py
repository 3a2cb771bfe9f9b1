"""Alternating minimisation."""

from collections.abc import Callable

from naim3l.extend import Learned

Record = dict[str, float]


def alternate(
    update: Callable[[], Record],
    max_iter: int,
    tol: float,
    *,
    has_ended: Callable[[], bool] | None = None,
) -> Learned:
    """Repeat an update until the objective falls by less than a share of itself.

    Parameters
    ----------
    update : callable
        Updates all blocks of variables once, and returns a record with the "objective". It
        replaces whole arrays, so that a KeyboardInterrupt leaves none half changed.
    max_iter : int
    tol : float
        Relative decrease of the objective at which to stop; 0 runs all iterations.
    has_ended : callable, optional
        Whether to stop after an update, where another rule than that of ``tol`` decides.

    Returns
    -------
    Learned
        Without arrays, which the caller adds.
    """
    learned = Learned({}, converged=False)
    try:
        for _ in range(max_iter):
            learned.history.append(update())
            if has_ended is not None:
                learned.converged = has_ended()
            elif len(learned.history) > 1:
                before, after = (record["objective"] for record in learned.history[-2:])
                learned.converged = tol > 0 and before - after <= tol * abs(before)
            if learned.converged:
                break
    except KeyboardInterrupt:
        learned.interrupted = True
    return learned

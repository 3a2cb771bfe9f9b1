"""Base of the models whose views may have kernels."""

from dataclasses import dataclass
from typing import Any

from naim3l.estimators.base import ViewModel
from naim3l.features.kernels import N_LANDMARKS, KernelMap, of_view


@dataclass(kw_only=True, eq=False, repr=False)
class KernelModel(ViewModel):
    """Base of the methods that are linear in the features of a view, or in those of its kernel."""

    kernel: Any = None
    n_landmarks: int | None = N_LANDMARKS
    gamma: Any = "auto"

    @property
    def gamma_(self) -> dict[str, float | None]:
        """Gamma of the kernel of each view, None for views without one."""
        maps = self.kernel_maps_
        return {view: maps[view].gamma_ if view in maps else None for view in self.views_}

    def _kernel_map(self, view: str) -> KernelMap | None:
        kernel = of_view("kernel", self.kernel, view)
        if kernel is None:
            return None
        gamma = of_view("gamma", self.gamma, view)
        return KernelMap(kernel, n_landmarks=self.n_landmarks, gamma=gamma, device=self.device)

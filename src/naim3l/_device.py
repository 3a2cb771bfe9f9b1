"""Devices of torch, such as a GPU, on which kernels and solvers may work."""

from typing import Any

CPU = "cpu"


def check_device(name: str, device: Any) -> None:
    """Refuse anything but "cpu", "auto" and devices of torch that can be used here."""
    if not isinstance(device, str):
        raise ValueError(f"{name} must be 'cpu', 'cuda' or 'auto', got {device!r}.")
    if device != CPU:
        find_device(device)


def is_usable(device: str) -> bool:
    """Whether a device other than the CPU is asked for, and is there."""
    if device == CPU:
        return False
    try:
        return bool(find_device(device).type != CPU)
    except ValueError:
        return False


def find_device(device: Any) -> Any:
    """Device of torch with the given name; "auto" is CUDA if available, otherwise the CPU."""
    try:
        import torch
    except ImportError:
        raise ValueError(
            f"device={device!r} needs torch; install it with pip install 'naim3l[torch]', or use "
            "device='cpu'."
        ) from None
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto' or a device of torch, got {device!r}.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but CUDA is not available here.")
    try:
        torch.zeros(1, device=found).cpu()  # "meta" has no values to copy back
    except Exception as error:  # each kind of device raises its own errors
        reason = str(error).partition(". ")[0]  # the rest is for people who build torch
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); use 'auto' or 'cpu'."
        ) from error
    return found


def free_memory(device: Any) -> int | None:
    """Bytes that are left on a device of torch; None if it does not tell."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None

"""Kernels compiled for a device."""

from __future__ import annotations

import functools
from typing import Any

from gpu_consensus.backends.cupy.source import OPTIONS, Kernel, source
from gpu_consensus.backends.device_errors import is_out_of_memory


@functools.cache
def compiled(kernel: Kernel, device: int) -> Any:
    """Compile a kernel for a device, once; CuPy keeps it on disk for next time."""
    import cupy

    try:
        text = kernel.macros + source(kernel.file)
        module = cupy.RawModule(code=text, options=OPTIONS)
        return module.get_function(kernel.name)
    except cupy.cuda.compiler.CompileException as error:
        raise RuntimeError(
            f"the CUDA kernel {kernel} failed to compile with options "
            f"{' '.join(OPTIONS)}; run gpu-consensus doctor, and report its "
            f"output with this log: {error}"
        ) from error
    except RuntimeError as error:
        if is_out_of_memory(error):  # a full device has no room for a kernel either
            raise
        # how CuPy says that it cannot load NVRTC, or that the driver refuses the kernel
        raise RuntimeError(
            f"CuPy cannot make the CUDA kernel {kernel} with options "
            f"{' '.join(OPTIONS)}; if NVRTC is missing, run pip install "
            "'gpu-consensus[cuda12]' (or cuda13), then gpu-consensus doctor; CuPy "
            f"says: {error}"
        ) from error

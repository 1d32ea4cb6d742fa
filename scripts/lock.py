"""Refresh requirements.lock from pyproject.toml (`make lock`).

One universal resolution for every extra, Linux and macOS, Python 3.11 to 3.13. The CUDA wheels that
torch itself pins to the digit are left out of the file, so that a CPU build of torch stays a CPU build.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
CUDA_WHEELS = re.compile(r"^(nvidia-[a-z0-9-]+|cuda-[a-z]+|triton)==", re.MULTILINE)


def resolve(*options: str) -> str:
    command = [
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        "3.11",
        "--all-extras",
        "--custom-compile-command",
        "make lock",
        *options,
        "pyproject.toml",
        "-",
    ]
    # The build tool is locked too: installing the project itself then takes no unpinned package.
    wanted = f"{TORCH}\nhatchling\neditables\n"
    return subprocess.run(command, cwd=ROOT, input=wanted, text=True, check=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    left_out = sorted({match for match in CUDA_WHEELS.findall(resolve())})
    lock = resolve(*(word for name in left_out for word in ("--no-emit-package", name)))
    # The trailer lists the packages left out in the resolver's own words; ours stands in the module docstring.
    lock = re.sub(r"\n# The following packages were excluded.*\Z", "\n", lock, flags=re.DOTALL)
    (ROOT / "requirements.lock").write_text(lock)
    print(f"requirements.lock: {len(re.findall(r'^[a-z0-9].*==', lock, re.MULTILINE))} packages", file=sys.stderr)


if __name__ == "__main__":
    main()

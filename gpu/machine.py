# SPDX-License-Identifier: Apache-2.0
"""What machine this is, and whether it has a GPU at all."""

import json
import os
import platform
import sys
from pathlib import Path

from gpu import running

# A driver that does not answer is one that is not there.
DRIVER_SECONDS = 30

# In a process of its own: a broken driver may hang or crash whoever opens it.
COUNT_DEVICES = """
import ctypes, sys
def end(text):
    print(text)
    sys.exit(3)
try:
    driver = ctypes.CDLL(sys.argv[1])
except OSError as why:
    end(f"{why}; install NVIDIA's driver, in a container run it with --gpus all")
code = driver.cuInit(0)
if code:
    end(f"cuInit gave {code}; see what nvidia-smi says")
count = ctypes.c_int(0)
code = driver.cuDeviceGetCount(ctypes.byref(count))
if code or not count.value:
    end(f"the driver sees no GPU (cuDeviceGetCount: {code}); see CUDA_VISIBLE_DEVICES, nvidia-smi")
print(count.value)
"""


def why_no_gpu(libraries):
    """One sentence, or nothing when there is a GPU."""
    name = Path(libraries) / "libcuda.so.1" if libraries else "libcuda.so.1"
    found = running.run([sys.executable, "-c", COUNT_DEVICES, name], DRIVER_SECONDS)
    if found.code == 0:
        return ""
    return found.lines[-1] if found.code == 3 and found.lines else f"libcuda: {found.ending()}"


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def system_name():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def describe_host():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages / 2**30, 1),
        "kernel": platform.release(),
        "system": system_name(),
    }


def describe_gpus(facts):
    """Name, driver and link, of what the plug-in says."""
    nvml = facts.get("nvml", {})
    links = {one.get("pci"): one for one in nvml.get("devices", [])}
    gpus = []
    for device in facts.get("devices", []):
        link = links.get(device.get("pci"), {})
        gpus.append(
            {
                "name": device.get("name"),
                "memory_gib": round(device.get("memory_bytes", 0) / 2**30, 1),
                "compute": device.get("compute"),
                "pcie_generation": link.get("pcie_generation"),
                "pcie_lanes": link.get("pcie_lanes"),
            }
        )
    return {
        "gpus": gpus,
        "driver": nvml.get("driver_version", facts.get("driver", {}).get("version")),
        "cuda": facts.get("driver", {}).get("version"),
        "nvjpeg": facts.get("nvjpeg", {}).get("version", "missing"),
        "cufile": facts.get("cufile", {}).get("version", "missing"),
    }


def gpu_facts(bench, environment):
    """What the plug-in says of the GPU, and why it says nothing."""
    said = running.run([bench, "facts"], DRIVER_SECONDS, environment)
    try:
        facts = json.loads("\n".join(said.lines))
    except ValueError:
        return {}, f"{bench} facts: {said.ending()}"
    return facts, "" if facts.get("devices") else facts.get("devices_missing", "no devices")


def in_words(about):
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory_gib']} GiB)" for gpu in about["gpus"])
    host = about["host"]
    return (
        f"{gpus}, driver {about['driver']}, {host['cpu']}, {host['cores']} cores, "
        f"{host['memory_gib']} GiB, Linux {host['kernel']}"
    )

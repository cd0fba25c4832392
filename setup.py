"""The native kernel. It is optional: without a compiler whyword is installed all the same, and uses torch."""

import sys
from sysconfig import get_config_var

from setuptools import Extension, setup

UNIX = sys.platform != "win32"
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-pthread"]  # no -march: the CPU is asked when it runs
STABLE = not get_config_var("Py_GIL_DISABLED")  # free-threaded Python has no stable interface yet

setup(
    ext_modules=[
        Extension(
            "whyword.maths._kernel",
            sources=["src/whyword/maths/kernel.cpp"],
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            extra_compile_args=FLAGS if UNIX else [],
            extra_link_args=["-pthread"] if UNIX else [],
            py_limited_api=STABLE,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE else {},
)

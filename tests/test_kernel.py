"""Every implementation of the kernel is the plain sum, over random shapes, strides, types and windows."""

import platform
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from whyword import InputError
from whyword.maths import kernel
from whyword.models.workspace import Workspace

needs_native = pytest.mark.skipif(kernel._native is None, reason="the native kernel was not built here")
NATIVE = [pytest.param(("native", lanes), id=f"native-{lanes}", marks=needs_native) for lanes in (4, 8, 16)]
IMPLEMENTATIONS = [pytest.param(("torch", 16), id="torch"), *NATIVE]


@dataclass(frozen=True)
class Case:
    weights: Tensor
    projected: Tensor
    whole: Tensor
    residual: Tensor | None
    first: int | None

    def measure(self) -> Tensor:
        arguments = self.weights, self.projected, self.whole, self.residual, self.first
        return kernel.measure_rest(*arguments, Workspace())

    def measure_plainly(self) -> Tensor:
        """Build all differences in float64."""
        parts = torch.einsum("ehij,ehjm->eijm", self.weights.double(), self.projected.double())
        rest = self.whole.double()[:, :, None] - parts
        if self.first is None:
            return rest.abs().sum(-1)
        if self.residual is not None:
            for row in range(min(rest.shape[1], rest.shape[2] - self.first)):
                rest[:, row, self.first + row] -= self.residual[:, row].double()
        return rest.abs().sum(-1).tril(self.first)


def make_strided(shape: list[int], dtype: torch.dtype, layout: int) -> Tensor:
    """Give random numbers as they lie, transposed, as a slice of more, or with gaps along the last axis."""
    if layout == 1:
        return torch.randn(*reversed(shape)).to(dtype).permute(*reversed(range(len(shape))))
    if layout == 2:
        more = torch.randn(*(size + 2 for size in shape)).to(dtype)
        return more[tuple(slice(1, 1 + size) for size in shape)]
    if layout == 3:
        return torch.randn(*shape[:-1], 2 * shape[-1]).to(dtype)[..., ::2]
    return torch.randn(*shape).to(dtype)


def make_case(
    sizes: tuple[int, int, int, int, int],
    first: int | None,
    dtype: torch.dtype = torch.float32,
    layouts: tuple[int, int, int] = (0, 0, 0),
    window: int = 0,
) -> Case:
    examples, heads, rows, others, width = sizes
    sources = others if first is None else first + rows
    weights = make_strided([examples, heads, rows, sources], dtype, layouts[0])
    if window and first is not None:
        weights *= torch.ones(rows, sources, dtype=dtype).triu(first - window)
    projected = make_strided([examples, heads, sources, width], dtype, layouts[1])
    whole = make_strided([examples, rows, width], dtype, layouts[2])
    residual = None if first is None else make_strided([examples, rows, width], dtype, layouts[2])
    return Case(weights, projected, whole, residual, first)


@st.composite
def cases(draw: Any) -> Case:
    torch.manual_seed(draw(st.integers(0, 1000)))
    sizes = tuple(draw(st.integers(1, most)) for most in (3, 7, 150, 40, 150))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]))
    layouts = tuple(draw(st.integers(0, 3)) for _ in range(3))
    return make_case(sizes, draw(st.sampled_from([None, 0, 1, 30])), dtype, layouts, draw(st.integers(0, 9)))


def force(monkeypatch: pytest.MonkeyPatch, name: str, lanes: int = 16) -> None:
    monkeypatch.setenv("WHYWORD_KERNEL", name)
    monkeypatch.setattr(kernel, "_LANES", lanes)


def check(case: Case) -> None:
    """Agree to 1e-5 of the largest entry of a row, of which all others are about as large, or of y itself."""
    found, expected = case.measure(), case.measure_plainly()
    assert found.dtype == (torch.float64 if case.whole.dtype == torch.float64 else torch.float32)
    whole = case.whole.double().abs().sum(-1, keepdim=True)
    scale = torch.maximum(expected.amax(-1, keepdim=True), whole).clamp(min=1e-30)
    torch.testing.assert_close(found.double() / scale, expected / scale, rtol=0, atol=1e-5)
    assert torch.equal(found == 0, expected == 0)


def share_plainly(case: Case) -> tuple[Tensor, Tensor]:
    """Give shares in float64, and what their rounding is relative to."""
    length = case.whole.double().abs().sum(-1, keepdim=True)
    closeness = (length - case.measure_plainly()).clamp(min=0).tril(case.first or 0)
    total = closeness.sum(-1, keepdim=True)
    return closeness / total, length / total


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
@pytest.mark.parametrize("layout", [0, 1, 3])
@pytest.mark.parametrize("first", [0, 1, 30])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 1), (2, 3, 5, 0, 70), (1, 12, 130, 0, 769), (3, 2, 17, 0, 64)]
)
def test_shares_of_a_row(
    sizes: tuple[int, int, int, int, int],
    first: int,
    layout: int,
    chosen: tuple[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    force(monkeypatch, *chosen)
    torch.manual_seed(0)
    case = make_case(sizes, first, layouts=(layout,) * 3)
    assert case.residual is not None
    case.residual.copy_(case.whole / 2)  # a part that is close; others are small
    case.weights.div_(20)
    found = kernel.measure_shares(case.weights, case.projected, case.whole, case.residual, first, Workspace())
    expected, scale = share_plainly(case)
    clear = scale[..., 0] < 1e4  # not rows in which all is 0 but for rounding
    assert clear.double().mean() > 0.8
    torch.testing.assert_close((found / scale)[clear], (expected / scale)[clear], rtol=0, atol=2e-5)
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:2]))


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
def test_a_row_of_which_no_part_is_close_is_itself_and_what_is_no_number_stays_so(
    chosen: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, *chosen)
    case = make_case((1, 2, 4, 0, 10), 3)
    case.projected.mul_(1e4)
    assert case.residual is not None
    case.residual.mul_(1e4)
    case.whole[0, 2] = torch.nan
    found = kernel.measure_shares(case.weights, case.projected, case.whole, case.residual, 3, Workspace())
    torch.testing.assert_close(found[0, [0, 1, 3]], torch.eye(4, 7).roll(3, 1)[[0, 1, 3]])
    assert found[0, 2, :6].isnan().all()


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
def test_the_plain_sum(chosen: tuple[str, int]) -> None:
    @given(cases())
    def agree(case: Case) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            force(monkeypatch, *chosen)
            check(case)

    agree()


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1, 1), (1, 300, 9, 9, 70), (2, 3, 131, 5, 769), (40, 2, 8, 8, 64), (1, 2, 300, 3, 16)],
    ids=["smallest", "many-heads", "wide", "many-examples", "long"],
)
@pytest.mark.parametrize("first", [None, 0, 20])
def test_far_sizes(
    chosen: tuple[str, int],
    sizes: tuple[int, int, int, int, int],
    first: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    force(monkeypatch, *chosen)
    torch.manual_seed(0)
    check(make_case(sizes, first))


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
@pytest.mark.parametrize("empty", range(5))
def test_nothing_gives_nothing(chosen: tuple[str, int], empty: int, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, *chosen)
    examples, heads, rows, sources, width = (0 if place == empty else 2 for place in range(5))
    case = make_case((examples, heads, rows, sources, width), None)
    torch.testing.assert_close(case.measure().double(), case.measure_plainly(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chosen", IMPLEMENTATIONS)
def test_a_tensor_that_is_not_a_number_stays_so(
    chosen: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, *chosen)
    case = make_case((1, 2, 9, 9, 20), 0)
    case.whole[0, 4, 19] = torch.nan
    assert case.measure().isnan().sum() == 5  # the sources that row 4 sees


@needs_native
@pytest.mark.parametrize("first", [None, 0, 60])
def test_the_same_whatever_the_number_of_threads(first: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "native")
    torch.manual_seed(0)
    case, before, found = make_case((2, 5, 130, 190, 333), first), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found += [case.measure(), case.measure()]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, found[0]) for each in found)


def test_an_implementation_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYWORD_KERNEL", "torch")
    assert kernel.implementation() == "torch"
    monkeypatch.delenv("WHYWORD_KERNEL")
    assert kernel.implementation() == ("native" if kernel._native else "torch")
    monkeypatch.setattr(kernel, "_native", None)
    assert kernel.implementation() == "torch"


def test_one_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYWORD_KERNEL", "fast")
    with pytest.raises(InputError, match=r"^WHYWORD_KERNEL is 'fast'\.\nSet it to native or torch"):
        make_case((1, 1, 1, 1, 1), 0).measure()


def test_one_that_was_not_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_native", None)
    monkeypatch.setenv("WHYWORD_KERNEL", "native")
    with pytest.raises(InputError, match=r"The native kernel was not built\.\nBuild it, or leave"):
        kernel.implementation()


@pytest.mark.skipif(platform.system() != "Linux", reason="linked as on Linux")
@pytest.mark.parametrize(
    ("compiler", "runner"),
    [("g++", None), ("clang++", None), ("aarch64-linux-gnu-g++", "qemu-aarch64")],
    ids=["gcc", "clang", "arm64"],
)
def test_alone_with_threads_of_its_own(compiler: str, runner: str | None, tmp_path: Path) -> None:
    """Without torch there is no OpenMP to ask: the kernel starts its own threads."""
    if missing := [name for name in (compiler, runner) if name is not None and shutil.which(name) is None]:
        pytest.skip(f"there is no {' and no '.join(missing)} here")
    program, source = tmp_path / "alone", Path(__file__).parent / "kernel_alone.cpp"
    flags = ["-std=c++17", "-O3", "-ffp-contract=fast", "-pthread", "-DPy_LIMITED_API=0x030A0000", "-w"]
    linking = ["-static", "-Wl,--unresolved-symbols=ignore-all"]  # of Python nothing is called
    headers = [f"-I{sysconfig.get_path('include')}", f"-I{_borrow_settings(tmp_path)}"]
    subprocess.run([compiler, *flags, *headers, source, "-o", program, *linking], check=True)
    done = subprocess.run([*filter(None, [runner]), program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " threads " in done.stdout


def _borrow_settings(folder: Path) -> Path:
    """Debian's Python has its settings by architecture: lend this one's, which is as wide, to arm64."""
    version = f"python{sysconfig.get_python_version()}"
    own = Path("/usr/include", str(sysconfig.get_config_var("MULTIARCH")), version, "pyconfig.h")
    lent = folder / "aarch64-linux-gnu" / version / "pyconfig.h"
    lent.parent.mkdir(parents=True)
    if own.exists():
        lent.write_text(own.read_text())
    return folder

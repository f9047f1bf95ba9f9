"""ELF files are read by section, and damaged ones are refused."""

import struct
import subprocess

import pytest
from codegen_case import compile_c

from tilewright.runtime.artifact import elf
from tilewright.runtime.artifact.elf_object import data_object


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("elf") / "a.o"
    source = '__attribute__((section(".own"))) const char text[] = "hello";'
    subprocess.run(["cc", "-c", "-o", path, "-x", "c", "-"], input=source.encode(), check=True)
    return path.read_bytes()


def test_a_section_is_found_by_its_name(data):
    assert elf.is_elf(data)
    assert elf.read_section(data, ".own") == b"hello\0"
    assert elf.read_section(data, ".none") is None


@pytest.mark.parametrize("length", [0, 4, 63, 64, 200])
def test_what_ends_early_is_refused(data, length):
    with pytest.raises(elf.ElfError):
        elf.read_section(data[:length], ".own")


def test_headers_that_lie_are_refused(data):
    for place, value in ((0x28, 2**64 - 1), (0x3C, 0xFFFF), (0x3E, 0xFFFF), (0x3A, 1)):
        bad = bytearray(data)
        struct.pack_into("<Q" if place == 0x28 else "<H", bad, place, value)
        with pytest.raises(elf.ElfError):
            elf.read_section(bytes(bad), ".own")


def test_bytes_become_an_object_without_a_compiler(data, tmp_path):
    made = data_object(b"weights", ".own", "here", 64, like=data)
    assert elf.read_section(made, ".own") == b"weights"
    (tmp_path / "b.o").write_bytes(made)
    source = "extern const char here[7]; int main(void) { return ((unsigned long)here & 63) | (here[6] != 's'); }"
    command = ["cc", "-Wl,--fatal-warnings", "-o", tmp_path / "a", tmp_path / "b.o", "-x", "c", "-"]
    subprocess.run(command, input=source.encode(), check=True)
    assert subprocess.run([tmp_path / "a"], check=False).returncode == 0


CODE = """
#include <math.h>
static int own(int a) { return a + 1; }
int data = 3;
float f(float x) { return expf(x) + own(data); }
__attribute__((weak)) int g(void) { return 1; }
__attribute__((visibility("hidden"))) int h(void) { return 2; }
"""


def test_symbols_that_others_see():
    found = {each.name: each for each in elf.list_symbols(compile_c(CODE))}
    assert {"f", "g", "h", "data", "expf"} <= {*found} and "own" not in found
    assert [(found[name].defined, found[name].function) for name in ("f", "data", "expf")] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert found["g"].weak and not found["f"].weak
    names = {each.name for each in elf.list_symbols(compile_c(CODE, "-shared"), dynamic=True) if each.defined}
    assert {"f", "g"} <= names and "h" not in names


def test_relocations_tell_code_with_fixed_addresses():
    fixed = "int v; long f(void) { return (long)&v; }"
    assert 10 in {*elf.list_relocations(compile_c(fixed, "-fno-pic", "-fno-pie"))}
    assert 10 not in {*elf.list_relocations(compile_c(fixed))}

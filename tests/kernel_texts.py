"""Kernels as MLIR text, and what tests of them share: operands, packed weights, a comparison."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)


def tensor(*shape: int, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def generic(name: str, ins: dict[str, str], maps: list[str], iterators: str, out: tuple[str, str], body: str) -> str:
    """One linalg.generic: operand name -> type, maps as text, 'p' or 'r' for each loop."""
    kinds = ", ".join(
        f'"{ {"p": "parallel", "r": "reduction"}[i] }"'.replace("{ ", "").replace(" }", "") for i in iterators
    )
    names, types = ", ".join(ins), ", ".join(ins.values())
    maps_text = ", ".join(f"affine_map<{m}>" for m in maps)
    return (
        f"%{name} = linalg.generic {{indexing_maps = [{maps_text}], iterator_types = [{kinds}]}} "
        f"ins({names} : {types}) outs({out[0]} : {out[1]}) {{ {body} }} -> {out[1]}"
    )


MULTIPLY_ADD = (
    "^bb0(%u: f32, %v: f32, %o: f32): %p = arith.mulf %u, %v fastmath<contract> : f32 "
    "%s = arith.addf %o, %p fastmath<contract> : f32 linalg.yield %s : f32"
)


BIAS_RELU = (
    "^bb0(%u: f32, %v: f32, %o: f32): %s = arith.addf %u, %v : f32 "
    "%q = arith.maximumf %s, %zero : f32 linalg.yield %q : f32"
)


def filled(name: str, kind: str, value: str = "0.0") -> str:
    return f"""%{name}c = arith.constant {value} : f32
      %{name}e = tensor.empty() : {kind}
      %{name} = linalg.fill ins(%{name}c : f32) outs(%{name}e : {kind}) -> {kind}"""


def matmul(m: int, n: int, k: int, block: int) -> str:
    packed, weight, out = tensor(-(-n // block), k, block), tensor(k, n), tensor(m, n)
    contraction = generic(
        "c", {"%a": tensor(m, k), "%w": weight},
        ["(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)"], "ppr", ("%f", out), MULTIPLY_ADD,
    )  # fmt: skip
    epilogue = generic(
        "r", {"%c": out, "%b": tensor(n)}, ["(m,n)->(m,n)", "(m,n)->(n)", "(m,n)->(m,n)"], "pp", ("%fe", out), BIAS_RELU
    )
    return f"""func.func @k(%a: {tensor(m, k)}, %wp: {packed}, %b: {tensor(n)}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %we = tensor.empty() : {weight}
      %w = linalg.unpack %wp outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [{block}] into %we
        : {packed} -> {weight}
      {filled("f", out)}
      {contraction}
      {epilogue}
      return %r : {out} }}"""


def pack(weight: np.ndarray, block: int) -> np.ndarray:
    """[k, n] -> [n / block, k, block], zero-padded."""
    k, n = weight.shape
    blocks = -(-n // block)
    padded = np.zeros((k, blocks * block), weight.dtype)
    padded[:, :n] = weight
    return padded.reshape(k, blocks, block).transpose(1, 0, 2)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def close(got: np.ndarray, want: np.ndarray, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(1.0, float(np.abs(want).max())))


def conv(size: int, channels: int, filters: int, window: int, stride: int, block: int) -> str:
    out = (size - window) // stride + 1
    blocks = -(-filters // block)
    x, w, y = tensor(1, size, size, channels), tensor(filters, channels, window, window), tensor(1, out, out, filters)
    packed = tensor(blocks, window, window, channels, block)
    dims = "(n,h,w,f,c,p,q)"
    contraction = generic(
        "c", {"%x": x, "%w": w},
        [f"{dims}->(n,h*{stride}+p,w*{stride}+q,c)", f"{dims}->(f,c,p,q)", f"{dims}->(n,h,w,f)"],
        "pppprrr", ("%f", y), MULTIPLY_ADD,
    )  # fmt: skip
    identity = "(n,h,w,f)->(n,h,w,f)"
    epilogue = generic(
        "r", {"%c": y, "%b": tensor(filters)}, [identity, "(n,h,w,f)->(f)", identity], "pppp", ("%fe", y), BIAS_RELU
    )
    return f"""func.func @k(%x: {x}, %wp: {packed}, %b: {tensor(filters)}) -> {y} {{
      %zero = arith.constant 0.0 : f32
      %we = tensor.empty() : {w}
      %w = linalg.unpack %wp outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [{block}] into %we
        : {packed} -> {w}
      {filled("f", y)}
      {contraction}
      {epilogue}
      return %r : {y} }}"""


SUM = "^bb0(%v: f32, %acc: f32): %s = arith.addf %acc, %v : f32 linalg.yield %s : f32"


MAXIMUM = "^bb0(%v: f32, %acc: f32): %s = arith.maximumf %acc, %v : f32 linalg.yield %s : f32"


ROWS = ["(i,j)->(i,j)", "(i,j)->(i)"]


def softmax(rows: int, columns: int) -> str:
    x, row = tensor(rows, columns), tensor(rows)
    three = ["(i,j)->(i,j)", "(i,j)->(i)", "(i,j)->(i,j)"]
    exponent = (
        "^bb0(%v: f32, %m: f32, %o: f32): %d = arith.subf %v, %m : f32 %e = math.exp %d : f32 linalg.yield %e : f32"
    )
    quotient = "^bb0(%v: f32, %m: f32, %o: f32): %d = arith.divf %v, %m : f32 linalg.yield %d : f32"
    return f"""func.func @k(%x: {x}) -> {x} {{
      %empty = tensor.empty() : {x}
      {filled("low", row, "0xFF800000")}
      {filled("zero", row)}
      {generic("top", {"%x": x}, ROWS, "pr", ("%low", row), MAXIMUM)}
      {generic("exp", {"%x": x, "%top": row}, three, "pp", ("%empty", x), exponent)}
      {generic("sum", {"%exp": x}, ROWS, "pr", ("%zero", row), SUM)}
      {generic("out", {"%exp": x, "%sum": row}, three, "pp", ("%empty", x), quotient)}
      return %out : {x} }}"""


def einsum(equation: str, extents: dict[str, int]) -> str:
    """A kernel for ``ab,bc->ac``, whose reduced letters come last in its loops."""
    left, right, out = equation.replace("->", ",").split(",")
    reduced = [letter for letter in dict.fromkeys(left + right) if letter not in out]
    loops, kinds = ",".join([*out, *reduced]), ", ".join(['"parallel"'] * len(out) + ['"reduction"'] * len(reduced))
    a, b, c = (f"tensor<{'x'.join(str(extents[letter]) for letter in term)}xf32>" for term in (left, right, out))
    maps = ", ".join(f"affine_map<({loops}) -> ({','.join(term)})>" for term in (left, right, out))
    return f"""func.func @k(%a: {a}, %b: {b}) -> {c} {{
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : {c}
      %f = linalg.fill ins(%z : f32) outs(%e : {c}) -> {c}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        ins(%a, %b : {a}, {b}) outs(%f : {c}) {{
      ^bb0(%u: f32, %v: f32, %o: f32):
        %p = arith.mulf %u, %v fastmath<contract> : f32
        %s = arith.addf %o, %p fastmath<contract> : f32
        linalg.yield %s : f32
      }} -> {c}
      return %r : {c} }}"""

"""The kernels of `matmul`: tiles of a product, with everything behind it in the same launch.

    acc = sum over k of a[m, k] · b[k, n]        z = factor · a_scale[m] · b_scale[n] · acc + bias[n]
    y = f(z) + residual[m, n]                    gated: y = f(z[m, n]) · z[m, N + n] + residual[m, n]

A program goes through tiles of y in an order in which neighbours share rows and columns that L2 holds. Where y has too
few tiles for the GPU, K is shared by several programs, which leave parts of acc that a second kernel sums, always in
the same order. A gated activation takes two tiles, of columns n and N + n: the halves of a weight lie as a checkpoint
has them, and z's halves meet in the registers of one thread; interleaved columns would need a weight in another order.

Fewest bytes: a, b, bias and residual once, y once; flops: 2 · M · N · K. Sums are in float32, in float64 for float64;
those of float8 leave the tensor cores' narrow sums after every tile of K.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from tilesight.kernels.gated import open_share


@triton.jit
def load_tile(
    source, batch, row, column, rows, columns, stride_b, stride_r, stride_c, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    ROW_EDGE: tl.constexpr, COLUMN_EDGE: tl.constexpr, TMA: tl.constexpr, BATCHED: tl.constexpr, TURNED: tl.constexpr,
    WIDE: tl.constexpr,
) -> Any:  # fmt: skip
    """ROWS × COLUMNS of a matrix, 0 beyond it; the edges say where the tile may reach beyond."""
    if TMA:
        if TURNED:
            if BATCHED:
                tile = tl.reshape(source.load([batch, column, row]), (COLUMNS, ROWS))
            else:
                tile = source.load([column, row])
            tile = tl.trans(tile)
        elif BATCHED:
            tile = tl.reshape(source.load([batch, row, column]), (ROWS, COLUMNS))
        else:
            tile = source.load([row, column])
    else:
        start = row.to(tl.int64) * stride_r + column.to(tl.int64) * stride_c
        if BATCHED:
            start += batch.to(tl.int64) * stride_b
        r = tl.arange(0, ROWS)
        c = tl.arange(0, COLUMNS)
        place = source + start
        if WIDE:
            place += r.to(tl.int64)[:, None] * stride_r + c.to(tl.int64)[None, :] * stride_c
        else:
            place += r[:, None] * stride_r + c[None, :] * stride_c
        if ROW_EDGE and COLUMN_EDGE:
            tile = tl.load(place, (row + r < rows)[:, None] & (column + c < columns)[None, :], other=0.0)
        elif ROW_EDGE:
            tile = tl.load(place, (row + r < rows)[:, None], other=0.0)
        elif COLUMN_EDGE:
            tile = tl.load(place, (column + c < columns)[None, :], other=0.0)
        else:
            tile = tl.load(place)
    return tile


@triton.jit
def scaled_half(
    acc, row, column, M, N, first, factor, bias_ptr, a_scale_ptr, b_scale_ptr, z_ptr, z_row, z_columns,
    BIAS: tl.constexpr, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr, FACTOR: tl.constexpr, KEEP: tl.constexpr,
) -> Any:  # fmt: skip
    """z of a tile, whose column n is column first + n of the right operand."""
    if FACTOR:
        acc = acc * factor
    if A_SCALE == 1:
        acc = acc * tl.load(a_scale_ptr)
    elif A_SCALE == 2:
        acc = acc * tl.load(a_scale_ptr + row, row < M, other=0.0)[:, None]
    if B_SCALE == 1:
        acc = acc * tl.load(b_scale_ptr)
    elif B_SCALE == 2:
        acc = acc * tl.load(b_scale_ptr + first + column, column < N, other=0.0)[None, :]
    if BIAS:
        acc = acc + tl.load(bias_ptr + first + column, column < N, other=0.0).to(acc.dtype)[None, :]
    if KEEP:
        place = z_ptr + z_row[:, None] * z_columns + (first + column)[None, :]
        tl.store(place, acc.to(z_ptr.dtype.element_ty), (row < M)[:, None] & (column < N)[None, :])
    return acc


@triton.jit
def finish_tile(
    acc, up, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n, M, N, factor, r_b, r_m, r_n,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr, FACTOR: tl.constexpr, KEEP: tl.constexpr,
    TMA: tl.constexpr, BATCHED: tl.constexpr,
):  # fmt: skip
    """Everything behind the product of a tile, and its store. z_ptr is y's where z is not kept."""
    row = m + tl.arange(0, ROWS)
    column = n + tl.arange(0, COLUMNS)
    mask = (row < M)[:, None] & (column < N)[None, :]
    y_row = batch.to(tl.int64) * M + row
    z_columns = 2 * N if GATED else N
    acc = scaled_half(
        acc, row, column, M, N, 0, factor, bias_ptr, a_scale_ptr, b_scale_ptr, z_ptr, y_row, z_columns,
        BIAS, A_SCALE, B_SCALE, FACTOR, KEEP,
    )  # fmt: skip
    if KIND == 1:
        acc = tl.where(acc < 0, tl.zeros_like(acc), acc)
    elif KIND > 1:
        acc = acc * open_share(acc, KIND - 2)[0]
    if GATED:
        acc *= scaled_half(
            up, row, column, M, N, N, factor, bias_ptr, a_scale_ptr, b_scale_ptr, z_ptr, y_row, z_columns,
            BIAS, A_SCALE, B_SCALE, FACTOR, KEEP,
        )  # fmt: skip
    if RESIDUAL:
        place = residual_ptr + batch.to(tl.int64) * r_b + row.to(tl.int64)[:, None] * r_m
        place += column.to(tl.int64)[None, :] * r_n
        acc += tl.load(place, mask, other=0.0).to(acc.dtype)
    out = acc.to(z_ptr.dtype.element_ty)
    if TMA:
        if BATCHED:
            y.store([batch, m, n], tl.reshape(out, (1, ROWS, COLUMNS)))
        else:
            y.store([m, n], out)
    else:
        tl.store(y + y_row[:, None] * N + column[None, :], out, mask)


@triton.jit
def halves(tile, ROWS: tl.constexpr, COLUMNS: tl.constexpr) -> Any:
    """The left and the right half of a tile."""
    left, right = tl.split(tl.permute(tl.reshape(tile, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))
    return left, right


@triton.jit
def finish_pieces(
    acc, up, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n, M, N, factor, r_b, r_m, r_n,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PIECES: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr, FACTOR: tl.constexpr,
    KEEP: tl.constexpr, TMA: tl.constexpr, BATCHED: tl.constexpr,
):  # fmt: skip
    """`finish_tile` for 1 or 2 pieces of a tile's columns, one after another."""
    if PIECES == 1:
        finish_tile(
            acc, up, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n, M, N, factor, r_b, r_m,
            r_n, ROWS, COLUMNS, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP, TMA, BATCHED,
        )  # fmt: skip
    else:
        left, right = halves(acc, ROWS, COLUMNS)  # pyright: ignore[reportGeneralTypeIssues]
        up_left, up_right = halves(up, ROWS, COLUMNS)  # pyright: ignore[reportGeneralTypeIssues]
        finish_tile(
            left, up_left, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n, M, N, factor, r_b,
            r_m, r_n, ROWS, COLUMNS // 2, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP, TMA, BATCHED,
        )  # fmt: skip
        finish_tile(
            right, up_right, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n + COLUMNS // 2, M,
            N, factor, r_b, r_m, r_n, ROWS, COLUMNS // 2, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP,
            TMA, BATCHED,
        )  # fmt: skip


@triton.jit
def matmul_tiles(
    a, b, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batches, M, N, K, factor, a_b, a_m, a_k, b_b, b_k,
    b_n, r_b, r_m, r_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    SPLITS: tl.constexpr, SUBTILES: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr, FACTOR: tl.constexpr, KEEP: tl.constexpr,
    A_BATCHED: tl.constexpr, B_BATCHED: tl.constexpr, Y_BATCHED: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr, K_EDGE: tl.constexpr, TMA: tl.constexpr, TMA_OUT: tl.constexpr, WIDE: tl.constexpr,
    FLATTEN: tl.constexpr, SUM: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
):  # fmt: skip
    """Tiles of y, one after another.

    With FLATTEN the compiler makes one loop of the loops over tiles and K, so that the next tile's loads are under way
    while a tile is finished; it does so only where every tile has as many steps, hence not with SPLITS.

    Tensors   a [batches, M, K], b [batches, K, N], 2 · N columns with GATED; y [SPLITS · batches, M, N]; a_scale and
              b_scale one number (1) or one a row and a column (2); TMA: a, b by descriptors, TMA_OUT: y by one
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLITS)
    columns = 2 * N if GATED else N
    tiles = tiles_m * tiles_n * batches * SPLITS
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        matrix = tile // (tiles_m * tiles_n)
        batch = matrix % batches
        begin = 0
        end = steps
        if SPLITS > 1:
            begin = matrix // batches * share
            end = tl.minimum(begin + share, steps)
        place = tile % (tiles_m * tiles_n)
        first = place // (GROUP * tiles_n) * GROUP
        size = tl.minimum(tiles_m - first, GROUP)
        m = (first + place % (GROUP * tiles_n) % size) * BLOCK_M
        n = place % (GROUP * tiles_n) // size * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), SUM)
        up = tl.zeros((BLOCK_M, BLOCK_N), SUM)
        for step in range(begin, end):
            k = step * BLOCK_K
            left = load_tile(
                a, batch, m, k, M, K, a_b, a_m, a_k, BLOCK_M, BLOCK_K, True, K_EDGE, TMA, A_BATCHED, A_TURNED, WIDE
            )
            right = load_tile(
                b, batch, k, n, K, columns, b_b, b_k, b_n, BLOCK_K, BLOCK_N, K_EDGE, True, TMA, B_BATCHED, B_TURNED,
                WIDE,
            )  # fmt: skip
            acc = tl.dot(left, right, acc, PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=SUM)
            if GATED:
                right = load_tile(
                    b, batch, k, N + n, K, columns, b_b, b_k, b_n, BLOCK_K, BLOCK_N, K_EDGE, True, TMA, B_BATCHED,
                    B_TURNED, WIDE,
                )  # fmt: skip
                up = tl.dot(left, right, up, PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=SUM)
        if SUBTILES <= 2:
            finish_pieces(
                acc, up, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, matrix, m, n, M, N, factor, r_b,
                r_m, r_n, BLOCK_M, BLOCK_N, SUBTILES, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP,
                TMA_OUT, Y_BATCHED,
            )  # fmt: skip
        else:
            left, right = halves(acc, BLOCK_M, BLOCK_N)  # pyright: ignore[reportGeneralTypeIssues]
            up_left, up_right = halves(up, BLOCK_M, BLOCK_N)  # pyright: ignore[reportGeneralTypeIssues]
            finish_pieces(
                left, up_left, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, matrix, m, n, M, N, factor,
                r_b, r_m, r_n, BLOCK_M, BLOCK_N // 2, 2, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP,
                TMA_OUT, Y_BATCHED,
            )  # fmt: skip
            finish_pieces(
                right, up_right, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, matrix, m,
                n + BLOCK_N // 2, M, N, factor, r_b, r_m, r_n, BLOCK_M, BLOCK_N // 2, 2, KIND, GATED, BIAS, RESIDUAL,
                A_SCALE, B_SCALE, FACTOR, KEEP, TMA_OUT, Y_BATCHED,
            )  # fmt: skip


@triton.jit
def summed_tiles(
    parts_ptr, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batches, M, N, factor, r_b, r_m, r_n,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SPLITS: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, A_SCALE: tl.constexpr, B_SCALE: tl.constexpr, FACTOR: tl.constexpr,
    KEEP: tl.constexpr,
):  # fmt: skip
    """One tile of y from parts [SPLITS, batches, M, N], 2 · N columns with GATED, added first to last."""
    tiles_n = tl.cdiv(N, COLUMNS)
    tiles_m = tl.cdiv(M, ROWS)
    batch = tl.program_id(0) // (tiles_m * tiles_n)
    m = tl.program_id(0) // tiles_n % tiles_m * ROWS
    n = tl.program_id(0) % tiles_n * COLUMNS
    row = m + tl.arange(0, ROWS)
    column = n + tl.arange(0, COLUMNS)
    mask = (row < M)[:, None] & (column < N)[None, :]
    columns = 2 * N if GATED else N
    acc = tl.zeros((ROWS, COLUMNS), parts_ptr.dtype.element_ty)
    up = tl.zeros((ROWS, COLUMNS), parts_ptr.dtype.element_ty)
    for part in range(SPLITS):
        matrix = (part * batches + batch).to(tl.int64)
        place = parts_ptr + (matrix * M + row)[:, None] * columns + column[None, :]
        acc += tl.load(place, mask, other=0.0)
        if GATED:
            up += tl.load(place + N, mask, other=0.0)
    finish_tile(
        acc, up, y, z_ptr, bias_ptr, residual_ptr, a_scale_ptr, b_scale_ptr, batch, m, n, M, N, factor, r_b, r_m, r_n,
        ROWS, COLUMNS, KIND, GATED, BIAS, RESIDUAL, A_SCALE, B_SCALE, FACTOR, KEEP, False, False,
    )  # fmt: skip

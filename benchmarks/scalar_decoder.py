"""The tile decoder as one would first write it: a tile at a time, in plain Python. The benchmark's peer.

It knows the main rules: a weight beyond the limit is an erasure and is filled from its row, faults in one row or one
column are read off the sums, equal row and column sums point at one weight. It has no likelihood and gives up early.
"""

from __future__ import annotations


def recover_tile(tile: list[list[int]], limit: int) -> list[list[int]]:
    """The tile with the faults taken out that these rules find, or as it came where they find none."""
    size = range(len(tile))
    n = [list(row) for row in tile]
    holes = [(i, j) for i in size for j in size if abs(n[i][j]) > limit]
    for i, j in holes:
        n[i][j] = 0
    for i, j in holes:
        n[i][j] = -sum(n[i]) if sum(other == i for other, _ in holes) == 1 else -sum(row[j] for row in n)
    for _ in size:
        rows = {i: total for i in size if (total := sum(n[i]))}
        columns = {j: total for j in size if (total := sum(row[j] for row in n))}
        if not rows and not columns:
            return n
        if len(rows) == 1:
            (i,) = rows
            for j, error in columns.items():
                n[i][j] -= error
        elif len(columns) == 1:
            (j,) = columns
            for i, error in rows.items():
                n[i][j] -= error
        else:
            match = next(((i, j) for i in rows for j in columns if rows[i] == columns[j]), None)
            if match is None:
                return n
            n[match[0]][match[1]] -= rows[match[0]]
    return n

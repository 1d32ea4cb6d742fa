"""The tile decoder said once more, one tile at a time in plain loops, for the tests to compare with."""

from __future__ import annotations

from math import inf

FAR = 2**40


class TileReference:
    """Decodes one R x C tile. `code` gives the bit pattern of an integer, `limit` bounds |n|, `bonus` is AGREEMENT."""

    def __init__(self, tile, erased, code, limit, sigma, flip_cost, bonus):
        self.n = [list(row) for row in tile]
        self.erased = [list(row) for row in erased]
        self.holes = [list(row) for row in erased]
        self.received = [[code(v) for v in row] for row in tile]
        self.code, self.limit, self.sigma, self.flip_cost, self.bonus = code, limit, sigma, flip_cost, bonus

    def turn(self):
        for name in ("n", "erased", "holes", "received"):
            setattr(self, name, [list(line) for line in zip(*getattr(self, name), strict=True)])

    def sums(self):
        return [sum(row) for row in self.n], [sum(column) for column in zip(*self.n, strict=True)]

    def cost(self, i, j, value):
        if abs(value) > self.limit:
            return inf
        flips = 0 if self.erased[i][j] else (self.code(value) ^ self.received[i][j]).bit_count()
        return self.flip_cost * flips + (value / self.sigma) ** 2 / 2

    def decode(self):
        """The decoded tile and whether it is certain; a tile that cannot be explained comes back as it was."""
        start = [list(row) for row in self.n]
        height, width = len(start), len(start[0])
        if 2 * sum(map(sum, self.erased)) >= height + width:
            return start, False
        guessed = False
        for _ in range(8 * max(height, width)):
            rho, kappa = self.sums()
            wrong_rows, wrong_columns = sum(r != 0 for r in rho), sum(k != 0 for k in kappa)
            if any(map(any, self.holes)):
                guessed |= not self.fill() and self.guess()
            elif wrong_rows == wrong_columns == 0:
                return self.n, not guessed
            elif (wrong_rows == 1 and self.line()) or (wrong_columns == 1 and self.turned(self.line)):
                continue
            elif wrong_rows == 0:
                if not self.pair():
                    return start, False
            elif wrong_columns == 0:
                if not self.turned(self.pair):
                    return start, False
            elif not self.single():
                return start, False
        return start, False

    def turned(self, rule):
        self.turn()
        moved = rule()
        self.turn()
        return moved

    def clip(self, value):
        return max(-self.limit, min(self.limit, value))

    def fill(self):
        rho, kappa = self.sums()
        in_row = [sum(row) for row in self.holes]
        in_column = [sum(column) for column in zip(*self.holes, strict=True)]
        fills = {}
        for i, row in enumerate(self.holes):
            for j, hole in enumerate(row):
                if not hole or (in_row[i] > 1 and in_column[j] > 1):
                    continue
                by_row = in_row[i] == 1
                if in_row[i] == in_column[j] == 1:
                    surplus = rho[i] - kappa[j]
                    columns = [abs(kappa[k] - surplus) for k in range(len(kappa)) if k != j and not in_column[k]]
                    rows = [abs(-rho[k] - surplus) for k in range(len(rho)) if k != i and not in_row[k]]
                    spoilt = min(columns, default=FAR) < min(rows, default=FAR) or abs(rho[i]) > self.limit
                    by_row = not (spoilt and abs(kappa[j]) <= self.limit)
                fills[i, j] = self.clip(-rho[i] if by_row else -kappa[j])
        for (i, j), value in fills.items():
            self.n[i][j], self.holes[i][j] = value, False
        return bool(fills)

    def guess(self):
        rho, kappa = self.sums()
        in_row = [sum(row) for row in self.holes]
        in_column = [sum(column) for column in zip(*self.holes, strict=True)]
        cells = [(i, j) for i, row in enumerate(self.holes) for j, hole in enumerate(row) if hole]
        i, j = min(cells, key=lambda cell: in_row[cell[0]] * in_column[cell[1]])
        value = sum(rho) / len(cells) - rho[i] / in_row[i] - kappa[j] / in_column[j]
        self.n[i][j], self.holes[i][j] = self.clip(round(value)), False
        return True

    def line(self):
        rho, kappa = self.sums()
        i = next(i for i, r in enumerate(rho) if r)
        row = [v - k for v, k in zip(self.n[i], kappa, strict=True)]
        if max(map(abs, row)) > self.limit or max(abs(v) for line in self.n for v in line) > self.limit:
            return False
        self.n[i] = row
        return True

    def pair(self):
        _, kappa = self.sums()
        j = max(range(len(kappa)), key=lambda k: (abs(kappa[k]), -k))
        best, move = -inf, None
        for i in range(len(self.n)):
            for k in range(len(kappa)):
                if k == j or kappa[k] == 0:
                    continue
                score = self.bonus * (kappa[k] == -kappa[j])
                score -= self.cost(i, j, self.n[i][j] - kappa[j]) - self.cost(i, j, self.n[i][j])
                score -= self.cost(i, k, self.n[i][k] + kappa[j]) - self.cost(i, k, self.n[i][k])
                if score > best:
                    best, move = score, (i, k)
        if move is None:
            return False
        i, k = move
        self.n[i][j] -= kappa[j]
        self.n[i][k] += kappa[j]
        return True

    def single(self):
        rho, kappa = self.sums()
        best, move = -inf, None
        for i, r in enumerate(rho):
            for j, k in enumerate(kappa):
                for error in (r, k) if r and k else ():
                    score = self.bonus * (r == k) + self.cost(i, j, self.n[i][j])
                    score -= self.cost(i, j, self.n[i][j] - error)
                    if score > best:
                        best, move = score, (i, j, error)
        if move is None:
            return False
        i, j, error = move
        self.n[i][j] -= error
        return True

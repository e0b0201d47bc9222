"""AddRemAdd climbs straight from the definition, in exact fractions."""

from fractions import Fraction


def literal_matrix(codes, n_labels):
    n = codes.shape[1]
    return [
        [
            sum(c[l] == c[m] != k_i for c, k_i in zip(codes, n_labels, strict=True))
            for m in range(n)
        ]
        for l in range(n)
    ]


def b(matrix, members, threshold):
    """The definition: similarities minus the threshold, summed, divided by |S|."""
    total = sum(int(matrix[l][m]) for l in members for m in members)
    return (total - Fraction(*threshold) * len(members) ** 2) / len(members)


def literal_climb(matrix, start, threshold):
    """Every set from the start on: flip the best object, the first of equals."""
    members, path = {start}, [{start}]
    while True:
        best, chosen = b(matrix, members, threshold), None
        for l in range(len(matrix)):
            flipped = members ^ {l}
            if flipped and b(matrix, flipped, threshold) > best:
                best, chosen = b(matrix, flipped, threshold), flipped
        if chosen is None:
            return path
        members = chosen
        path.append(members)

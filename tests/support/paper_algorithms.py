"""Alg. 4 to 13 of the paper, line by line in NumPy: written from its text, not from boxscore.

The names are the paper's: a letter for an array, `_hat` for ground truth, `_list` for a list of one array per image or
mini-batch, `_2` for a second tensor of the same letter. `n` images, `m` detections per image, `m_hat` truths per image,
`k` classes, `t` the threshold.

A comment that starts with "Slip" marks a line whose published text can't be followed, and says what the line does.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def load_data(
    B_hat_list: Sequence[Floats], L_hat_list: Sequence[Ints], M_hat_list: Sequence[Flags], n: int, m_hat: int
) -> tuple[Floats, Ints, Flags]:
    """Alg. 4, data loading."""
    B_hat = np.zeros((n, m_hat, 4))
    # Slip: `zeros`. A dummy would have label 0 and, as the last pixel is inside a box, cover the first pixel of its
    # image; a detection of class 0 there would match it and be ignored. No detection has label -1.
    L_hat = np.full((n, m_hat), -1)
    # Slip: the text says that 1 stands for a real truth; in the algorithm, and here, it stands for one to ignore.
    M_hat = np.ones((n, m_hat), bool)
    for i in range(n):
        j = len(B_hat_list[i])
        B_hat[i, :j] = B_hat_list[i]
        L_hat[i, :j] = L_hat_list[i]
        M_hat[i, :j] = M_hat_list[i]
    return B_hat, L_hat, M_hat


def post_process(n: int, m: int, is_discarded: Callable[[int, int], bool]) -> Flags:
    """Alg. 5, post-processing: the mask; boxes, labels and scores stay as they are."""
    M = np.zeros((n, m), bool)
    for i in range(n):
        for j in range(m):
            if is_discarded(i, j):
                M[i, j] = True
    return M


def compute_iou(B: Floats, B_hat: Floats, m: int, m_hat: int) -> Floats:
    """Alg. 6, IoU computation."""
    B_2 = np.tile(np.expand_dims(B, axis=2), (1, 1, m_hat, 1))
    B_hat_2 = np.tile(np.expand_dims(B_hat, axis=1), (1, m, 1, 1))
    W = np.maximum(0, np.minimum(B_2[..., 2], B_hat_2[..., 2]) - np.maximum(B_2[..., 0], B_hat_2[..., 0]) + 1)
    H = np.maximum(0, np.minimum(B_2[..., 3], B_hat_2[..., 3]) - np.maximum(B_2[..., 1], B_hat_2[..., 1]) + 1)
    A = (B_2[..., 2] - B_2[..., 0] + 1) * (B_2[..., 3] - B_2[..., 1] + 1)
    A_hat = (B_hat_2[..., 2] - B_hat_2[..., 0] + 1) * (B_hat_2[..., 3] - B_hat_2[..., 1] + 1)
    O: Floats = (W * H) / (A + A_hat - W * H)
    return O


def filter_iou(O: Floats, L: Ints, L_hat: Ints, M: Flags, m: int, m_hat: int) -> Floats:
    """Alg. 7, IoU filtering."""
    O = O.copy()
    L_2 = np.tile(np.expand_dims(L, axis=2), (1, 1, m_hat))
    L_hat_2 = np.tile(np.expand_dims(L_hat, axis=1), (1, m, 1))
    O[L_2 != L_hat_2] = 0
    M_2 = np.tile(np.expand_dims(M, axis=2), (1, 1, m_hat))
    O[M_2] = 0
    return O


def categorize_below(O: Floats, M: Flags, n: int, m: int, t: float) -> Ints:
    """Alg. 8, categorization below the threshold."""
    D = np.zeros((n, m), int)  # Slip: `zeros(n, m)`.
    # Slip: a mini-batch without truths has no maximum; detections then overlap nothing.
    D[np.amax(O, axis=2, initial=0) <= t] = 1
    D[M] = 0
    return D


def categorize_above(
    D: Ints,
    O: Floats,
    L: Ints,
    S: Floats,
    M_hat: Flags,
    m: int,
    m_hat: int,
    t: float,
) -> tuple[Ints, Ints, Floats]:
    """Alg. 9, categorization above the threshold. Gives D, L and S sorted by S."""
    lambda_ = m + 1
    D, O = D.copy(), O.copy()
    M_hat_2 = np.tile(np.expand_dims(M_hat, axis=1), (1, m, 1))
    O[M_hat_2] = 0
    V = np.amax(O, axis=2, initial=0) > t  # Slip: as in Alg. 8.
    J = np.argmax(O, axis=2) if m_hat else np.zeros_like(D)
    # Slip: Alg. 10 reads L and S at the places of the sorted D, so these must be sorted, too. The order is not told:
    # it is the best score first, and of equal scores the first detection.
    order = np.argsort(-S, axis=1, kind="stable")
    D, V, J, L, S = (np.take_along_axis(each, order, axis=1) for each in (D, V, J, L, S))
    D[V] = 1
    J_2 = np.tile(np.expand_dims(J, axis=2), (1, 1, m_hat)) == np.arange(m_hat)
    V_2 = np.tile(np.expand_dims(V, axis=2), (1, 1, m_hat))
    J_2[~V_2] = 0
    J_2 = np.transpose(J_2, axes=(0, 2, 1))
    J_3 = J_2 * (np.arange(m) + 1)
    J_3[J_3 == 0] = lambda_
    # Slip: `amin` without an axis, and the text names the slice J[i, j, :]; it is J[i, j_hat, :], so the axis is 2.
    U_2 = (np.amin(J_3, axis=2, keepdims=True, initial=lambda_) == J_3) & (J_3 < lambda_)
    U = np.amax(U_2, axis=1, initial=False)
    D[U] = 2
    return D, L, S


def extract(
    L_list: list[Ints], S_list: list[Floats], D_list: list[Ints], L: Ints, S: Floats, D: Ints
) -> tuple[list[Ints], list[Floats], list[Ints]]:
    """Alg. 10, extraction of TP and FP."""
    # Slip: the input leaves out the matrices L, S and D, which the lines read.
    L_list.append(L[D > 0])
    S_list.append(S[D > 0])
    D_list.append(D[D > 0] - 1)
    return L_list, S_list, D_list


def compute_pr(
    L_list: Sequence[Ints],
    S_list: Sequence[Floats],
    D_list: Sequence[Ints],
    z_hat: Ints,
    k: int,
    epsilon: float,
) -> tuple[Floats, Floats, Flags]:
    """Alg. 11, precision and recall. The third array marks, per class, the columns from its first detection on."""
    l = np.concatenate(L_list)
    s = np.concatenate(S_list)
    d = np.concatenate(D_list)
    order = np.argsort(-s, kind="stable")
    l, d = l[order], d[order]
    u = d == 1
    v = ~u  # Slip: `~d`, of numbers; it is "not" of the mask that d stands for.
    L = np.tile(np.expand_dims(l, axis=1), (1, k)) == np.arange(k)
    L = np.transpose(L)
    U = L & u
    V = L & v
    P = np.cumsum(U, axis=1) / np.maximum(np.cumsum(U, axis=1) + np.cumsum(V, axis=1), epsilon)
    # Slip: a class without easy truths divides by zero. Here its recall stays 0, and Alg. 12 and 13 leave it out.
    Z_hat = np.maximum(np.expand_dims(z_hat, axis=1), 1)
    Q = np.cumsum(U, axis=1) / Z_hat
    is_started = np.cumsum(U, axis=1) + np.cumsum(V, axis=1) > 0
    return P, Q, is_started


def average_every_element(P: Floats, Q: Floats, is_started: Flags, z_hat: Ints, k: int) -> tuple[float, Floats]:
    """Alg. 12, mAP from every element; and the AP of each class, NaN for one without easy truths."""
    # Slip: Alg. 11 leaves precision 0 in the columns before a class's first detection, so a trapezoid would start at
    # (0, 0) and the dummy point (0, 1) be lost, except for the class of the very first detection. The text means the
    # curve of each class: its dummy point holds up to its first detection.
    P = np.where(is_started, P, 1.0)
    # Slip: `concatenate` without an axis; it is 1.
    P = np.concatenate((np.ones((k, 1)), P), axis=1)
    Q = np.concatenate((np.zeros((k, 1)), Q), axis=1)
    # Slip: the sum is over axis 0, the classes; it is over the elements of each class, then the mean over classes.
    AP = np.sum((P[:, 1:] + P[:, :-1]) * (Q[:, 1:] - Q[:, :-1]) / 2, axis=1)
    return _mean_of_defined(AP, z_hat)


def average_specific_elements(P: Floats, Q: Floats, z_hat: Ints, q_hat: Floats) -> tuple[float, Floats, Floats]:
    """Alg. 13, mAP from specific elements; the AP of each class, and its precision at each recall."""
    P_2 = np.tile(np.expand_dims(P, axis=2), (1, 1, len(q_hat)))
    Q_2 = np.tile(np.expand_dims(Q, axis=2), (1, 1, len(q_hat)))
    # Slip: without detections there is no maximum; precision is then 0.
    best = np.amax(P_2 * (Q_2 >= q_hat), axis=1, initial=0)
    return (*_mean_of_defined(np.mean(best, axis=1), z_hat), best)


def _mean_of_defined(AP: Floats, z_hat: Ints) -> tuple[float, Floats]:
    """The mean over classes with easy truths, and AP with NaN for the others."""
    AP = np.where(z_hat > 0, AP, np.nan)
    return (float(np.nanmean(AP)) if (z_hat > 0).any() else math.nan), AP

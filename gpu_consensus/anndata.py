"""Clusterings of single cells: columns of ``adata.obs`` in, one more column out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpu_consensus.ensemble.ensemble import Ensemble
from gpu_consensus.methods import FINDERS
from gpu_consensus.methods import consensus as find_consensus
from gpu_consensus.result import Consensus
from gpu_consensus.select.select_n_clusters import select_n_clusters
from gpu_consensus.util.checks import check_choice
from gpu_consensus.util.numbers import shown


def consensus(
    adata: Any,
    keys: str | Sequence[str] = "leiden_*",
    n_clusters: int | str | None = "auto",
    *,
    method: str = "auto",
    key_added: str = "consensus",
    method_options: Mapping[str, Any] | None = None,
    backend: str = "auto",
    n_jobs: int | None = None,
    random_state: int | None = None,
    progress: bool = False,
) -> Consensus:
    """Find the consensus of clusterings that annotated data hold.

    Parameters
    ----------
    adata : AnnData
        Gets ``obs[key_added]``, the labels as categories "0", "1", ...;
        ``obs[key_added + "_confidence"]``; and ``uns[key_added]``, what was asked and
        why there are so many clusters. Columns of these names are replaced.
    keys : str or sequence of str, default "leiden_*"
        Columns of ``adata.obs``, one partition in each; an asterisk stands for any
        text. Missing labels are welcome.
    n_clusters : int or "auto", default "auto"
        "auto" is what :func:`select_n_clusters` finds for these partitions. Methods
        that find their number need none.
    method : str, default "auto"
        One of ``gpc.METHODS``.
    key_added : str, default "consensus"
        Name of the results.
    method_options : mapping, optional
        More options of the method.
    backend, n_jobs, progress
        As in :func:`kcc`.
    random_state : int, optional
        Same seed, same labels.

    Returns
    -------
    Consensus
        The same, with all details.

    Examples
    --------
    >>> import gpu_consensus as gpc
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> obs = pd.DataFrame({"leiden_1": list("aabb"), "leiden_2": list("xxyy")})
    >>> adata = SimpleNamespace(obs=obs, uns={})  # as an AnnData would be
    >>> result = gpc.anndata.consensus(adata, n_clusters=2, random_state=0)
    >>> adata.obs["consensus"].tolist() in (list("0011"), list("1100"))
    True
    """
    import pandas as pd

    columns = _columns(adata, keys, key_added)
    ens = Ensemble(adata.obs[columns])
    shared: dict[str, Any]
    shared = {"backend": backend, "n_jobs": n_jobs, "progress": progress}
    reason = ""
    number: int | None = None
    if not isinstance(n_clusters, str):
        number = n_clusters
    elif check_choice("n_clusters", n_clusters, ["auto"]) and method not in FINDERS:
        selection = select_n_clusters(ens, random_state=random_state, **shared)
        number, reason = selection.n_clusters, selection.reason
    result = find_consensus(
        ens,
        number,
        method,
        random_state=random_state,
        **shared,
        **dict(method_options or {}),
    )
    names = [str(k) for k in range(result.n_clusters)]
    adata.obs[key_added] = pd.Categorical(
        [names[k] for k in result.labels], categories=names
    )
    adata.obs[f"{key_added}_confidence"] = result.confidence
    adata.uns[key_added] = {
        "keys": columns,
        "method": result.method,
        "n_clusters": result.n_clusters,
        "value": float(result.value),
        "reason": reason,
        "random_state": "" if random_state is None else int(random_state),
    }
    return result


def _columns(adata: Any, keys: Any, key_added: str) -> list[str]:
    """Return the columns of the partitions, by name or pattern."""
    there = [name for name in adata.obs.columns if isinstance(name, str)]
    own = (key_added, f"{key_added}_confidence")
    asked = [keys] if isinstance(keys, str) else list(keys)
    found: list[str] = []
    for key in asked:
        if not isinstance(key, str):
            raise TypeError(
                f"keys={shown(keys)} should be names of columns of adata.obs."
            )
        exact = [name for name in there if name == key]
        some = exact or [n for n in there if fnmatchcase(n, key) and n not in own]
        if not some:
            raise ValueError(
                f"keys={shown(key)} fits no column of adata.obs, which has "
                f"{', '.join(there) or 'none'}."
            )
        found += [name for name in some if name not in found]
    if not found:
        raise ValueError("keys is empty; name columns of adata.obs, like 'leiden_*'.")
    return found

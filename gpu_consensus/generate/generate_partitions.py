"""Basic partitions from features: six strategies, any clusterer, resumable."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_consensus.backends import NAMES as BACKENDS
from gpu_consensus.backends.numpy import MOST_THREADS, asked_threads
from gpu_consensus.ensemble.ensemble import Ensemble, as_ensemble
from gpu_consensus.ensemble.growing import Growing, grow
from gpu_consensus.generate import clusterers as bases
from gpu_consensus.generate import device, host, views
from gpu_consensus.generate.rows import METRICS
from gpu_consensus.generate.store import PartitionStore
from gpu_consensus.util.arrays import to_host
from gpu_consensus.util.checks import (
    check_choice,
    check_int,
    check_share,
    seed_sequence,
)
from gpu_consensus.util.memory import check_memory
from gpu_consensus.util.progress import progress_bar
from gpu_consensus.util.sparse import is_sparse
from gpu_consensus.util.tables import check_features
from gpu_consensus.util.warn import warn

Codes = npt.NDArray[Any]
Maker = host.HostMaker | device.DeviceMaker

_SEED_BYTES = 1 << 10  # of memory that a seed and its task take
_FEW_COLUMNS, _FEW_ROWS = 32, 1 << 17  # steps of k-means on fewer are short


def generate_partitions(
    X: Any,
    n_partitions: int = 100,
    strategy: str = "rps",
    n_clusters: int | None = None,
    k_range: tuple[int, int] | None = None,
    *,
    metric: str = "euclidean",
    base: Any = "kmeans",
    sample_share: float | None = None,
    complete: bool = False,
    n_features: float | None = None,
    n_components: int | None = None,
    zipf_alpha: float | None = None,
    zipf_weights: str | None = None,
    max_iter: int = 10,
    rows_per_cluster: int | None = 64,
    backend: str = "auto",
    n_jobs: int | None = None,
    random_state: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Ensemble:
    """Cluster the same objects many times, each time a little differently.

    Parameters
    ----------
    X : array_like, DataFrame or scipy sparse of shape (n_samples, n_features)
        Finite numbers; sparse stays sparse. k-means computes in float32, whatever the
        type; other bases are given float32 if ``X`` is that, else float64.
    n_partitions : int, default 100
        How many partitions to make. Partition i depends on ``random_state`` and i
        alone, so more partitions with the same seed begin with the same ones.
    strategy : str, default "rps"
        What varies besides the seed:

        - "rps", random parameter: the number of clusters k, drawn from ``k_range``;
        - "rfs", random features: ``n_features`` columns, drawn anew each time;
        - "rows", row segmentation: ``sample_share`` of the rows;
        - "projection": a Gaussian random projection to ``n_components`` dimensions;
        - "zipf": features weighted by ``zipf_weights``, after dense columns are
          brought to unit standard deviation;
        - "restarts": nothing.
    n_clusters : int, optional
        K, the number of clusters in mind. All strategies but "rps" use k = K.
    k_range : (int, int), optional
        Draw k uniformly from these two and what lies between, whatever the strategy.
        For "rps" the default is fine where n allows, several labels for each cluster:
        [min(max(5K, 30), m / 2), min(max(10K, 60), m)] with m = max(sqrt(n), min(n /
        10, 200)), and [K, 2K] for every tenth partition. For "cosine" and sparse rows
        m = sqrt(n), there is no 30, 60 or tenth, and it is [K, m] if m < 5K. Rounded
        up, [K, 2K] at least; without K, [2, min(ceil(sqrt n), 50)]. A partition never
        gets a k above the number of distinct rows that it sees.
    metric : {"euclidean", "cosine"}, default "euclidean"
        For k-means, and for ``complete``; "cosine" is spherical k-means, for text.
    base : "kmeans", clusterer or callable, default "kmeans"
        A scikit-learn clusterer is cloned, its ``random_state`` is set, and so is its
        ``n_clusters`` (of a mixture, ``n_components``) unless that is None. A callable
        is ``(X, n_clusters, seed) -> labels``. A label -1 means missing.
    sample_share : float in (0, 1], optional
        Share of the rows that each partition clusters; the others have no label in
        it. Works with every strategy ("rps" with 1 - rr is Strategy-I of [1]_, 6.5;
        for Strategy-II see :func:`drop_labels`). Default 0.5 for "rows", else 1.
    complete : bool, default False
        Give the rows that were not sampled the label of the nearest centroid.
    n_features : int, or float in (0, 1], optional
        Columns of each "rfs" view, or their share. Default 2 as in [1]_, a tenth of
        the columns when there are more than 100.
    n_components : int, optional
        Dimensions of each "projection", default 3 as in [2]_.
    zipf_alpha : float >= 0, optional
        Exponent of "zipf"; by default one of 0, 0.25, ..., 1.5 is drawn each time.
    zipf_weights : {"drawn", "ranked"}, optional
        Two readings of [3]_. "drawn" (default): integers 1..100 with probability in
        proportion to i^-alpha, divided by the largest. "ranked": 1 / rank^alpha under
        a random ranking of the features.
    max_iter : int, default 10
        Iterations of "kmeans" at most.
    rows_per_cluster : int or None, default 64
        "kmeans" learns its k centroids from this many rows per cluster, at least
        1,000 in all, drawn at random from those that the partition sees; then each of
        these gets the label of the nearest centroid. None learns from all. cuML
        always does.
    backend : {"auto", "cupy", "native", "numpy"}, default "auto"
        "cupy" keeps ``X`` and the partitions on the CUDA device and needs cuML, whose
        labels differ a little from run to run even with the same seed (store the
        partitions to have them again); "cosine" is then k-means on rows of unit
        length. "auto" does so for CuPy arrays; the others run on the CPU.
    n_jobs : int, optional
        Partitions made at the same time, -1 for one per core; the result does not
        depend on it. By default what ``joblib.parallel_config`` says, else what the
        environment variable ``GPU_CONSENSUS_NUM_THREADS`` says, else one per core, but
        one at a time for k-means on fewer than 32 dense columns and 2^17 rows: its
        steps are so short that threads would wait for one another. Each worker computes
        on one thread; they share one float32 copy of ``X``, and each holds the columns
        or rows that its partition alone sees. Threads are used; for a callable that is
        mostly Python, ``joblib.parallel_config("loky")`` brings processes.
    random_state : int, SeedSequence, Generator or RandomState, optional
        Seed.
    checkpoint : path, optional
        A folder where each finished partition is kept. The same call goes on from
        there after an interruption, makes only what is missing, and ends with the
        same answer; with a larger ``n_partitions`` it adds to them. If
        ``random_state`` is None the seed in the folder is used. The folder stays when
        all is done: delete it when you do not need it. A callable ``base`` is known
        by its name only. A folder of a release whose partitions are others is
        refused.
    output : path, optional
        A folder to which every partition is written as soon as it is made; the
        ensemble is mapped from there and never is in memory as a whole. It is there
        when all is done, and what was there before stays until then.
    progress : bool, default False
        Draw a progress bar on standard error.

    Returns
    -------
    Ensemble

    Notes
    -----
    A basic partition should be good and unlike the others; that it is the end of a
    descent adds little to the consensus. So the defaults trade one to three percent
    of a partition's own objective (the mean on pendigits, letter and mnist) for
    time: ``max_iter`` stops the descent early, ``rows_per_cluster`` keeps its cost
    from growing with n (only the last labelling sees every row), and float32 halves
    the traffic but cannot tell rows apart whose distance is below about 1/3000 of
    the spread of the data (for sparse rows and "cosine", 1/250 of their length). A
    partition may come out with fewer labels than the k that was drawn.
    ``max_iter=300, rows_per_cluster=None`` runs to the end, and
    ``base=sklearn.cluster.KMeans(n_init=1)`` does so in float64.

    References
    ----------
    .. [1] Wu, Liu, Xiong, Cao and Chen, K-means-based consensus clustering: a unified
       view, IEEE TKDE 27(1), 2015, sections 6.1, 6.4.3 and 6.5.
    .. [2] Heisterkamp, lambda-consensus clustering.
    .. [3] Nguyen and Caruana, Consensus clusterings, ICDM 2007.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> X[::3] += 9
    >>> ens = generate_partitions(X, 20, n_clusters=2, random_state=0)
    >>> int(ens.n_labels.min()), int(ens.n_labels.max())
    (4, 8)
    >>> generate_partitions(X, 20, "rows", n_clusters=2, random_state=0)
    Ensemble(20 partitions of 60 objects, 2 labels each, 50.0% missing, uint8, 1.2 kB)
    """
    check_choice("backend", backend, BACKENDS)
    on_gpu = device.wants_device(backend, X, base)
    n_partitions = check_int("n_partitions", n_partitions, 1)
    metric = check_choice("metric", metric, METRICS)
    max_iter = check_int("max_iter", max_iter, 1)
    if rows_per_cluster is not None:
        cure = "or None for all rows"
        rows_per_cluster = check_int("rows_per_cluster", rows_per_cluster, 1, cure=cure)
    X = device.load_features(X, metric) if on_gpu else check_features(X)
    n_workers = _n_workers(n_jobs, alone=_is_narrow(X, base))
    recipe = views.make_recipe(
        X.shape,
        strategy,
        n_clusters,
        k_range,
        bases.needs_n_clusters(base),
        is_text=metric == "cosine" or is_sparse(X),
        sample_share=sample_share,
        n_features=n_features,
        n_components=n_components,
        zipf_alpha=zipf_alpha,
        zipf_weights=zipf_weights,
    )
    maker: Maker
    if on_gpu:
        scale = device.column_scale(X, recipe.strategy)
        maker = device.DeviceMaker(X, recipe, metric, bool(complete), scale, max_iter)
    else:
        maker = host.make_maker(
            X, recipe, metric, base, bool(complete), max_iter, rows_per_cluster
        )
    _check_room(X.shape[0], n_partitions, in_memory=output is None)
    if checkpoint is None:
        seed, store = seed_sequence(random_state), None
    else:
        given = None if random_state is None else seed_sequence(random_state)
        store = PartitionStore(checkpoint, maker.describe(), given)
        seed = store.seed
    todo = []
    with (
        _room(maker, n_partitions, output) as table,
        progress_bar(progress, "partitions", n_partitions) as advance,
    ):
        for i in range(n_partitions):
            kept = None if store is None else store.read(i, X.shape[0])
            if kept is None:
                todo.append(i)
            else:
                table.put(i, *kept)
                advance()
        seeds = seed.spawn(n_partitions)
        tasks = [(i, seeds[i]) for i in todo]
        with closing(_run(maker, tasks, n_workers)) as made:
            for i, codes, n_labels in made:
                if store is not None:
                    store.write(i, to_host(codes), n_labels)
                table.put(i, codes, n_labels)
                advance()
    if isinstance(table, _CodeTable):
        ensemble = Ensemble.from_codes(table.codes, table.n_labels)
    else:
        assert output is not None
        ensemble = Ensemble.load(output, verify=False)
    _warn_unlabelled(ensemble, sampled=recipe.n_sampled is not None)
    return ensemble


def drop_labels(ensemble: Any, share: float, random_state: Any = None) -> Ensemble:
    """Remove labels at random, as if parts of each partition had been lost.

    Parameters
    ----------
    ensemble : Ensemble or array of shape (n_samples, n_partitions)
        The partitions.
    share : float in [0, 1)
        Share of its labels that each partition loses.
    random_state : int, SeedSequence, Generator or RandomState, optional
        Seed.

    Returns
    -------
    Ensemble
        On the host. An object that would lose every label keeps one of them, drawn at
        random, so that it can still be clustered; hence a little less than ``share``
        is removed where partitions are few and ``share`` is large. Labels that nobody
        carries any more are dropped.

    References
    ----------
    Wu, Liu, Xiong, Cao and Chen, K-means-based consensus clustering: a unified view,
    IEEE TKDE 27(1), 2015, section 6.5, Strategy-II.

    Examples
    --------
    >>> ens = Ensemble.from_partitions([[0, 0, 1, 1], [0, 1, 1, 1]])
    >>> drop_labels(ens, 0.5, random_state=0).n_missing.tolist()
    [2, 1]
    """
    share = check_share("share", share, open_low=False, open_high=True)
    ens = as_ensemble(ensemble)[0]
    before = ens.to("numpy").codes
    sizes = ens.n_labels
    seeds = seed_sequence(random_state).spawn(len(sizes) + 1)
    after = before.copy()
    n_before = np.zeros(before.shape[1], dtype=np.int64)
    n_after = np.zeros(before.shape[1], dtype=np.int64)
    for i, k_i in enumerate(sizes):
        present = np.flatnonzero(before[i] != k_i)
        rng = np.random.default_rng(seeds[i])
        lost = rng.choice(present, round(share * present.size), replace=False)
        after[i, lost] = k_i
        n_before += before[i] != k_i
        n_after += after[i] != k_i
    bare = np.flatnonzero((n_before > 0) & (n_after == 0))
    countdown = np.random.default_rng(seeds[-1]).integers(n_before[bare])
    for i, k_i in enumerate(sizes):
        labelled = before[i, bare] != k_i
        back = bare[labelled & (countdown == 0)]
        after[i, back] = before[i, back]
        countdown -= labelled
    categories = []
    for i, k_i in enumerate(sizes):
        used = np.bincount(after[i], minlength=k_i + 1)[:k_i] > 0
        after[i] = np.append(np.cumsum(used) - 1, used.sum())[after[i]]
        categories.append(ens.categories[i][used])
    return Ensemble.from_codes(
        after,
        [len(labels) for labels in categories],
        ens.weights,
        categories=categories,
    )


class _CodeTable:
    """The (n_partitions, n_samples) codes, filled one by one."""

    def __init__(self, maker: Maker, n_partitions: int) -> None:
        shape = (n_partitions, maker.X.shape[0])
        self.to_device = maker.to_device
        self.codes: Codes = maker.empty(shape)
        self.n_labels = np.zeros(n_partitions, dtype=np.int64)

    def put(self, i: int, codes: Codes, n_labels: int) -> None:
        if codes.dtype.itemsize > self.codes.dtype.itemsize:
            self.codes = self.codes.astype(codes.dtype)
        self.codes[i] = self.to_device(codes)
        self.n_labels[i] = n_labels


def _room(
    maker: Maker, n_partitions: int, output: str | os.PathLike[str] | None
) -> AbstractContextManager[_CodeTable | Growing]:
    """Return where partitions go: into memory, or to a folder."""
    if output is None:
        return nullcontext(_CodeTable(maker, n_partitions))
    return grow(output, maker.X.shape[0])


def _check_room(n_samples: int, n_partitions: int, *, in_memory: bool) -> None:
    """Refuse more partitions than there is memory for their seeds, or their codes."""
    nbytes = n_partitions * (_SEED_BYTES + n_samples * in_memory)
    cure = "make fewer" + (", or give a folder as output" if in_memory else "")
    check_memory(f"n_partitions={n_partitions}", nbytes, None, cure)


def _run(
    maker: Maker,
    tasks: list[tuple[int, np.random.SeedSequence]],
    n_workers: int,
) -> Generator[tuple[int, Codes, int], None, None]:
    """Make partitions and yield them as they are done."""
    if isinstance(maker, device.DeviceMaker):
        for task in tasks:  # one at a time: each fills the device
            yield maker.make(*task)
        return
    from joblib import Parallel, delayed

    try:
        most = min(n_workers, max(1, len(tasks)))  # joblib starts all that it is told
        workers = Parallel(most, prefer="threads", return_as="generator_unordered")
    except ValueError as error:
        raise ValueError(
            f"joblib cannot hand out partitions as they are done ({error}); use "
            "joblib.parallel_config('threading') or ('loky')."
        ) from error
    with closing(workers(delayed(maker.make)(*task) for task in tasks)) as results:
        yield from results


def _is_narrow(X: Any, base: Any) -> bool:
    """Whether k-means on these features spends its time in Python, under the GIL."""
    small = X.shape[0] < _FEW_ROWS and X.shape[1] < _FEW_COLUMNS
    return isinstance(base, str) and small and not is_sparse(X)


def _n_workers(n_jobs: int | None, *, alone: bool) -> int:
    if n_jobs is not None:
        cure = "-1 for one per core"
        if check_int("n_jobs", n_jobs, -MOST_THREADS, MOST_THREADS, cure=cure) == 0:
            raise ValueError("n_jobs=0 should be >= 1, or -1 for one per core.")
        return int(n_jobs)
    from joblib.parallel import get_active_backend

    active, configured = get_active_backend()
    if configured is not None:
        return int(configured)
    asked = asked_threads()
    if asked is not None:
        return asked
    return 1 if alone or active.nesting_level else -1


def _warn_unlabelled(ensemble: Ensemble, *, sampled: bool) -> None:
    if not ensemble.n_missing.all():
        return
    bare = np.ones(ensemble.n_samples, dtype=bool)
    for codes, k_i in zip(ensemble.codes, ensemble.n_labels, strict=True):
        bare &= to_host(codes) == k_i
    if bare.any():
        cure = (
            "make more partitions, raise sample_share, or set complete=True"
            if sampled
            else "base finds them to be noise, so drop them or change its settings"
        )
        warn(
            f"{int(bare.sum())} of {ensemble.n_samples} objects have no label in any "
            f"partition; {cure}."
        )

"""The tests of kcc, the loop and the refinement again, on the emulated device."""

import numpy as np
import pytest
from conftest import emulated
from test_kcc import (  # noqa: F401  collected here a second time
    noisy,
    test_a_partition_with_one_label_is_valid,
    test_a_partition_without_any_label_counts_for_nothing,
    test_an_init_cluster_of_unlabelled_objects_only_is_filled,
    test_an_object_missing_everywhere,
    test_bad_arguments_say_what_to_do,
    test_confidence_is_the_share_of_the_own_cluster,
    test_custom_utility_equals_the_built_in_of_the_same_mu,
    test_duplicated_rows_stay_together_and_double_the_objective,
    test_few_restarts_at_a_time_change_nothing,
    test_identical_partitions_give_that_partition,
    test_init_labels_are_where_it_starts,
    test_kept_unlabelled_objects_get_minus_one_and_do_not_count,
    test_more_clusters_than_distinct_rows,
    test_ninety_percent_missing_still_gives_k_clusters,
    test_objects_known_only_to_weightless_partitions_are_unknown_to_predict,
    test_one_cluster_is_valid_and_warns,
    test_one_object_and_one_partition,
    test_predict_gives_old_objects_their_own_cluster,
    test_seedings_find_clear_clusters,
    test_seeds_that_are_a_fixed_point_at_once_have_their_objective,
    test_stopping_early_warns,
    test_weights_replace_those_of_the_ensemble,
    test_worked_examples_of_category_utility,
)
from test_lloyd import (  # noqa: F401
    Alternates,
    Rises,
    test_a_checkpoint_knows_children_of_a_seed_and_utilities_apart,
    test_a_checkpoint_of_another_call_is_refused,
    test_an_interrupted_run_goes_on_to_the_same_answer,
)
from test_refine import test_no_single_move_is_left  # noqa: F401

import gpu_consensus as gpc
from gpu_consensus.backends import choose_backend
from gpu_consensus.kcc import KccRule
from gpu_consensus.lloyd import Problem, Starts, lloyd
from gpu_consensus.utilities import parse_utility


@pytest.fixture(autouse=True)
def on_the_emulated_device(monkeypatch):
    monkeypatch.setenv("GPU_CONSENSUS_BACKEND", "cupy")
    with emulated():
        yield


def run(name, labels, n_clusters, seeds, make_rule, max_iter=100):
    """Run the loop itself on a backend; assignment and objective on the host."""
    ens = gpc.Ensemble(labels)
    backend = choose_backend(name, None)
    nobody = np.empty(0, dtype=np.intp)
    problem = Problem(backend, ens.codes, ens.offsets, n_clusters, nobody)
    starts = Starts.seeded(problem, np.array(seeds, dtype=np.uint8))
    lloyd(problem, make_rule(ens), starts, max_iter=max_iter)
    assert np.array_equal(
        backend.to_host(starts.counts),
        backend.to_host(problem.count(starts.assignment)),
    )
    return backend.to_host(starts.assignment), starts.objective, starts.converged


def category(ens):
    return KccRule(ens, parse_utility("c")[1], ens.weights)


@pytest.mark.parametrize("at", [2, 3])
def test_steps_are_undone(at):
    labels, _ = noisy(0, n=300, r=6)
    seeds = np.random.default_rng(0).integers(6, size=(2, 300))
    for make_rule in (category, lambda ens: Rises(category(ens), at)):
        there = run("cupy", labels, 5, seeds, make_rule)
        here = run("numpy", labels, 5, seeds, make_rule)
        for found, expected in zip(there, here, strict=True):
            assert np.array_equal(found, expected)


def test_empty_clusters_are_filled():
    labels, _ = noisy(1, n=50, r=8)
    labels[[10, 20, 30, 40]] = labels[10]
    seeds = np.full((1, 50), 4)
    seeds[0, [10, 20, 30, 40]] = [0, 1, 2, 3]
    for max_iter in (1, 50):
        there = run("cupy", labels, 4, seeds, category, max_iter)
        here = run("numpy", labels, 4, seeds, category, max_iter)
        assert np.array_equal(there[0], here[0])
        assert len(np.unique(there[0])) == 4


class OnHost(Alternates):
    """Its table looks at an assignment, wherever that is."""

    def table(self, counts, rows):
        return super().table(counts, [[int(rows[0][0])]])


def test_cycles_end():
    labels = np.array([[0], [0], [1], [1]])
    _, _, converged = run("cupy", labels, 2, [[0, 0, 1, 1]], lambda ens: OnHost())
    assert converged[0]

/* One object after another to the cluster with which it shares most labels: the loop of
   gpu_consensus/methods/ipc.py, the same bits. */
#include "native.h"

/* Visit every object once; return how many moved.

   weights (r): 1 each where they are equal, so that sums of counts are exact;
   marginal (S): shares of labels, for clusters without any member present;
   counts (S, K), sizes (r, K), members (K), assignment (n): the state; score (K). */
GPC_API int64_t gpc_sweep(const void* codes, int64_t code_size, int64_t stride,
                          const int64_t* offsets, int64_t n_partitions,
                          int64_t n_samples, const double* weights,
                          const double* marginal, int64_t complete, void* assignment,
                          int64_t cluster_size, int64_t n_clusters, int64_t* counts,
                          int64_t* sizes, int64_t* members, double* score) {
    int64_t moved = 0;
    for (int64_t l = 0; l < n_samples; ++l) {
        const int64_t own = gpc_cluster(assignment, cluster_size, l);
        if (own >= n_clusters || members[own] == 1) continue;
        for (int64_t k = 0; k < n_clusters; ++k) score[k] = 0.0;
        for (int64_t i = 0; i < n_partitions; ++i) {
            const int64_t row = offsets[i] + gpc_code(codes, code_size, i * stride + l);
            const int64_t* restrict n = counts + row * n_clusters;
            const int64_t* restrict size = sizes + i * n_clusters;
            if (complete) {
                for (int64_t k = 0; k < n_clusters; ++k)
                    score[k] += weights[i] * (double)n[k];
            } else if (row != offsets[i + 1] - 1) {
                for (int64_t k = 0; k < n_clusters; ++k) {
                    const double share =
                        size[k] == 0 ? marginal[row] : (double)n[k] / (double)size[k];
                    score[k] += weights[i] * share;
                }
            }
        }
        int64_t best = 0;
        for (int64_t k = 0; k < n_clusters; ++k) {
            if (complete) score[k] /= (double)gpc_max(members[k], 1);
            if (score[k] > score[best]) best = k;
        }
        if (best == own) continue;
        gpc_set_cluster(assignment, cluster_size, l, best);
        for (int64_t i = 0; i < n_partitions; ++i) {
            const int64_t row = offsets[i] + gpc_code(codes, code_size, i * stride + l);
            --counts[row * n_clusters + own];
            ++counts[row * n_clusters + best];
            if (row == offsets[i + 1] - 1) continue;
            --sizes[i * n_clusters + own];
            ++sizes[i * n_clusters + best];
        }
        --members[own];
        ++members[best];
        ++moved;
    }
    return moved;
}

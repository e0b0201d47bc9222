/* One sweep of TILO: the loop of gpu_consensus/feedback/tilo.py, integers only. */
#include "native.h"

/* Apply the best shift at every local maximum; return how many there were.

   weights (vertices, vertices); degree, left (vertices); order, boundary (n movable);
   moves (n, 2) receives positions, from and to. See `sweep` there for the arrays. */
GPC_API int64_t gpc_tilo_sweep(const int64_t* weights, int64_t n_vertices,
                               const int64_t* degree, int64_t* order, int64_t* left,
                               int64_t* boundary, int64_t n, int64_t* moves) {
    int64_t n_shifts = 0, a = -1; /* the end of the last local minimum */
    for (;;) {
        int64_t before = a >= 0 ? boundary[a] : 0;
        while (a + 1 < n && boundary[a + 1] == before) ++a;
        int64_t c = a;
        while (c + 1 < n && boundary[c + 1] >= before) before = boundary[++c];
        if (c + 1 >= n) return n_shifts;
        int64_t b = c;
        while (b - 1 > a && boundary[b - 1] == boundary[c]) --b;
        int64_t end = c;
        while (end + 1 < n && boundary[end + 1] <= boundary[end]) ++end;
        int64_t d = end;
        while (boundary[d - 1] == boundary[end]) --d;
        int64_t best = 0, source = -1, target = -1;
        const int64_t after = order[b + 1];
        const int64_t slope_after = degree[after] - 2 * left[after];
        for (int64_t k = b; k > a; --k) {
            const int64_t vertex = order[k];
            const int64_t* row = weights + vertex * n_vertices;
            int64_t slope = degree[vertex] - 2 * left[vertex];
            const int64_t rest = slope_after + 2 * row[after];
            /* an equal drop: the lower position */
            const int64_t needed = gpc_max(rest + gpc_max(best, 1), 1);
            for (int64_t p = k + 1; p <= b && slope >= needed; ++p)
                slope -= 2 * row[order[p]];
            if (slope >= needed) {
                best = slope - rest;
                source = k;
                target = b + 1;
            }
        }
        const int64_t top = order[c];
        const int64_t slope_top = degree[top] - 2 * left[top];
        for (int64_t k = c + 1; k <= d; ++k) {
            const int64_t vertex = order[k];
            const int64_t* row = weights + vertex * n_vertices;
            int64_t slope = degree[vertex] - 2 * left[vertex];
            const int64_t rest = slope_top - 2 * row[top];
            const int64_t allowed = gpc_min(rest - best, 0);
            for (int64_t p = k - 1; p > c && slope < allowed; --p)
                slope += 2 * row[order[p]];
            if (slope < allowed) {
                best = rest - slope;
                source = k;
                target = c;
            }
        }
        if (source >= 0) {
            moves[2 * n_shifts] = source;
            moves[2 * n_shifts + 1] = target;
            ++n_shifts;
            const int64_t vertex = order[source], step = target > source ? 1 : -1;
            const int64_t* row = weights + vertex * n_vertices;
            for (int64_t p = source + step; p != target + step; p += step) {
                const int64_t passed = order[p], weight = step * row[passed];
                left[passed] -= weight;
                left[vertex] += weight;
                order[p - step] = passed;
            }
            order[target] = vertex;
            const int64_t low = gpc_min(source, target);
            int64_t sum = low > 0 ? boundary[low - 1] : 0;
            for (int64_t p = low; p < gpc_max(source, target); ++p) {
                sum += degree[order[p]] - 2 * left[order[p]];
                boundary[p] = sum;
            }
        }
        a = end;
        if (a + 1 >= n) return n_shifts;
    }
}

/* Merges of classes, the most alike first. See gpu_consensus/methods/agglomerate.py,
   whose bits these are.

   The matrix is symmetric, but a merge writes a row alone: to write the column as well
   would touch as many cache lines as there are classes. A row fetches what it missed
   before it is read, from the rows that were written since. Classes that are gone are
   left out of matrix and lists when they are more than half of them. */
#include "native.h"

enum {
    BLOCK = 256,   /* classes among which the first of the best is looked for */
    SMALLEST = 64, /* so few classes stay where they are */
};

enum { AVERAGE, SUM, SINGLE, COMPLETE };

/* How far a run is. */
typedef struct {
    int64_t n_classes; /* gone ones included */
    int64_t n_left;
    int64_t clock;     /* merges since the matrix was whole */
    int64_t n_written; /* of the list below */
} progress;

typedef struct {
    double* matrix; /* rows of `line` numbers */
    int64_t line, linkage;
    double* sizes;
    double* best; /* never below the likeness to the best partner; -inf: gone */
    int64_t* partner;
    int64_t* stale;   /* 1 where best and partner may be out of date */
    int64_t* name;    /* the first group of the class */
    int64_t* wrote;   /* the clock when its row was written by a merge, 0 for never */
    int64_t* fetched; /* the clock when its row had all that others wrote */
    int64_t* written; /* classes whose row was written */
    int64_t* gone;    /* by the clock of their merge */
    progress* at;
} classes;

/* bring a row up to date */
static double* fetch(const classes* c, int64_t a) {
    double* row = c->matrix + a * c->line;
    const int64_t since = c->fetched[a];
    for (int64_t t = 0; t < c->at->n_written; ++t) {
        const int64_t x = c->written[t];
        if (c->wrote[x] > since && x != a) row[x] = c->matrix[x * c->line + a];
    }
    for (int64_t t = since; t < c->at->clock; ++t) row[c->gone[t]] = -__builtin_inf();
    c->fetched[a] = c->at->clock;
    return row;
}

/* of a class of so many objects to class x; `average` is known to the compiler */
GPC_INLINE double likeness(const int average, const double* row, double size,
                           const double* sizes, int64_t x) {
    return average ? row[x] / (size * sizes[x]) : row[x];
}

/* the largest of so many numbers */
GPC_INLINE double most_of(const double* numbers, int64_t size) {
    enum { LANES = GPC_VECTOR / 8 };
    gpc_doubles top = (gpc_doubles){0} - __builtin_inf();
    int64_t x = 0;
    for (; x + LANES <= size; x += LANES) {
        const gpc_doubles here = *(const gpc_doubles*)(numbers + x);
        const gpc_longs above = here > top;
        top = (gpc_doubles)(((gpc_longs)here & above) | ((gpc_longs)top & ~above));
    }
    double most = -__builtin_inf();
    for (int t = 0; t < LANES; ++t) most = top[t] > most ? top[t] : most;
    for (; x < size; ++x) most = numbers[x] > most ? numbers[x] : most;
    return most;
}

static int64_t first_of(const double* numbers, double number) {
    int64_t x = 0;
    while (numbers[x] != number) ++x;
    return x;
}

GPC_INLINE void find_partner(const int average, const classes* c, int64_t a) {
    const double *row = c->matrix + a * c->line, *sizes = c->sizes;
    const double size = sizes[a];
    double score[BLOCK], top = -__builtin_inf();
    int64_t place = 0;
    for (int64_t from = 0; from < c->at->n_classes; from += BLOCK) {
        const int64_t some = gpc_min(BLOCK, c->at->n_classes - from);
        for (int64_t x = 0; x < some; ++x)
            score[x] = likeness(average, row, size, sizes, from + x);
        const double most = most_of(score, some);
        if (most > top) {
            top = most;
            place = from + first_of(score, most);
        }
    }
    c->best[a] = top;
    c->partner[a] = place;
    c->stale[a] = 0;
}

/* find the best partner of a class anew */
static void refresh(const classes* c, int64_t a) {
    fetch(c, a);
    if (c->linkage == AVERAGE)
        find_partner(1, c, a);
    else
        find_partner(0, c, a);
}

/* tell all classes of the one that a and b became */
GPC_INLINE void offer(const int average, const classes* c, int64_t a, int64_t b) {
    const double *row = c->matrix + a * c->line, *sizes = c->sizes;
    const double size = sizes[a];
    double* restrict best = c->best;
    int64_t* restrict partner = c->partner, * restrict stale = c->stale;
    const int64_t n = c->at->n_classes;
    for (int64_t x = 0; x < n; ++x) {
        const double score = likeness(average, row, size, sizes, x);
        const int64_t mate = partner[x], old = stale[x];
        const int64_t lost = (mate == a) | (mate == b);
        const int64_t tied = (score == best[x]) & !old & (lost | (a < mate));
        const int64_t takes = (score > best[x]) | tied;
        stale[x] = (old | lost) & !takes;
        best[x] = takes ? score : best[x];
        partner[x] = takes ? a : mate;
    }
}

/* the class of largest best, the first of equals */
static int64_t leader(const classes* c) {
    double top = -__builtin_inf();
    int64_t place = 0;
    for (int64_t from = 0; from < c->at->n_classes; from += BLOCK) {
        const double* best = c->best + from;
        const int64_t some = gpc_min(BLOCK, c->at->n_classes - from);
        const double most = most_of(best, some);
        if (most > top) {
            top = most;
            place = from + first_of(best, most);
        }
    }
    return place;
}

/* put class b into class a, which comes before it */
static void merge(const classes* c, int64_t a, int64_t b) {
    double* restrict row = fetch(c, a);
    const double* restrict other = fetch(c, b);
    const int64_t n = c->at->n_classes;
    if (c->linkage == SINGLE)
        for (int64_t x = 0; x < n; ++x) row[x] = row[x] > other[x] ? row[x] : other[x];
    else if (c->linkage == COMPLETE)
        for (int64_t x = 0; x < n; ++x) row[x] = row[x] < other[x] ? row[x] : other[x];
    else
        for (int64_t x = 0; x < n; ++x) row[x] += other[x];
    row[a] = row[b] = -__builtin_inf();
    c->sizes[a] += c->sizes[b];
    c->gone[c->at->clock++] = b;
    if (!c->wrote[a]) c->written[c->at->n_written++] = a;
    c->wrote[a] = c->fetched[a] = c->at->clock;
    --c->at->n_left;
    if (c->linkage == AVERAGE)
        offer(1, c, a, b);
    else
        offer(0, c, a, b);
    c->best[b] = -__builtin_inf();
    c->stale[b] = 0;
    refresh(c, a);
}

/* leave out the classes that are gone, in place: rows move up, their numbers left */
static void compact(const classes* c) {
    const int64_t n = c->at->n_classes;
    for (int64_t a = 0; a < n; ++a)
        if (c->best[a] > -__builtin_inf()) fetch(c, a);
    int64_t *keep = c->written, *place = c->gone, left = 0; /* both are free now */
    for (int64_t a = 0; a < n; ++a) {
        place[a] = 0;
        if (!(c->best[a] > -__builtin_inf())) continue;
        place[a] = left;
        keep[left++] = a;
    }
    for (int64_t a = 0; a < left; ++a) {
        const int64_t from = keep[a];
        double* to = c->matrix + a * c->line;
        const double* row = c->matrix + from * c->line;
        for (int64_t x = 0; x < left; ++x) to[x] = row[keep[x]];
        c->sizes[a] = c->sizes[from];
        c->name[a] = c->name[from];
        c->best[a] = c->best[from];
        c->stale[a] = c->stale[from];
        c->partner[a] = place[c->partner[from]];
    }
    memset(c->wrote, 0, (size_t)left * 8);
    memset(c->fetched, 0, (size_t)left * 8);
    c->at->n_classes = left;
    c->at->clock = c->at->n_written = 0;
}

/* Merge until there are so few classes, the next merge is below `least`, or there have
   been `most` merges; return how many there were.

   matrix (line, line), whose diagonal is -inf; numbers (2, line): sizes, best; lists
   (7, line): partner, stale, name, wrote, fetched, written, gone; state (4): see above.
   At first best is inf, stale 1, name 0, 1, ..., the other lists 0, and state line,
   line, 0, 0. merged (most, 2): the names of both; scores (most). */
GPC_API int64_t gpc_merge(double* matrix, int64_t line, int64_t linkage,
                          double* numbers, int64_t* lists, int64_t* state, double least,
                          int64_t few, int64_t most, int64_t* merged, double* scores) {
    progress at = {state[0], state[1], state[2], state[3]};
    const classes c = {matrix,
                       line,
                       linkage,
                       numbers,
                       numbers + line,
                       lists,
                       lists + line,
                       lists + 2 * line,
                       lists + 3 * line,
                       lists + 4 * line,
                       lists + 5 * line,
                       lists + 6 * line,
                       &at};
    int64_t done = 0;
    while (done < most && at.n_left > few) {
        int64_t a = leader(&c);
        while (c.stale[a]) {
            refresh(&c, a);
            a = leader(&c);
        }
        if (c.best[a] < least) break;
        const int64_t b = c.partner[a];
        merged[2 * done] = c.name[a];
        merged[2 * done + 1] = c.name[b];
        scores[done++] = c.best[a];
        merge(&c, a, b);
        if (2 * at.n_left < at.n_classes && at.n_classes > SMALLEST) compact(&c);
    }
    const int64_t now[4] = {at.n_classes, at.n_left, at.clock, at.n_written};
    memcpy(state, now, sizeof now);
    return done;
}

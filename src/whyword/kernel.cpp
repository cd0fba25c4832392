// ‖y_i − Σ_h A[h,i,j] P[h,j]‖₁ for pairs of a row i and a source j; kernel.py calls it and says what is what.
// For a few rows and one source, some vectors of the width at a time: heads are summed in registers, absolute
// values are added up at once, one number per pair is written. P is packed in panels before all rows read it:
// its heads lie in memory where they push each other out of the caches.

#include <Python.h>
#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>
#define INLINE inline __attribute__((always_inline))  // into functions that are compiled for one kind of CPU

namespace {
using Size = Py_ssize_t;
constexpr Size SOURCES = 8;      // of an item of work, for any number of threads: so results are the same
constexpr Size PANEL = 3 << 14;  // floats of P that are packed at once: 192 kB stay in the L2 cache

struct alignas(64) CacheLine { float floats[16]; };
struct Task {
    const float *weights, *projected;
    const float *starts;  // [own, example, row, padded width]: y_i; y_i − x_i where the row is the source
    float *rest;          // [example, row, source], zeros
    struct { Size example, head, row, source; } a, p;           // strides of weights and of projected
    Size examples, heads, rows, sources, width, padded, first;  // first: the source that is the first row
    void (*measure)(const Task &, Size);
    std::atomic<Size> next{0};
    Size blocks() const { return (sources + SOURCES - 1) / SOURCES; }
};

// Copy P of one source, from a place of the width on, as [tile, head, place in the tile]; zeros at the end.
template <Size Tile> INLINE void pack(const Task &task, const float *from, Size left, Size width, float *to) {
    for (Size head = 0; head < task.heads; ++head, from += task.p.head)
        for (Size at = 0; at < width; at += Tile) {
            float *tile = to + at * task.heads + head * Tile;
            if (at + Tile <= left) std::copy_n(from + at, Tile, tile);
            else std::fill(std::copy(from + at, from + left, tile), tile + Tile, 0.0f);
        }
}

// Add up |y_i − Σ_h A[h,i,j] P[h,j]| over the width of a panel, for up to `Rows` rows and one source.
template <int Lanes, int Vectors, int Rows, int Stride>
INLINE void measure_rows(const Task &task, Size rows, Size width, const float **starts, const float *weights,
                         const float *panel, float *to) {
    if constexpr (Rows > 1) if (rows < Rows)  // the last ones are fewer
        return measure_rows<Lanes, Vectors, Rows - 1, Stride>(task, rows, width, starts, weights, panel, to);
    typedef float Vector __attribute__((vector_size(4 * Lanes), aligned(4), may_alias));
    typedef int Bits __attribute__((vector_size(4 * Lanes)));
    Vector total[Rows] = {};
    for (Size at = 0; at < width; at += Lanes * Vectors) {
        Vector rest[Rows][Vectors], part[Vectors];
        for (int row = 0; row < Rows; ++row)
            for (int v = 0; v < Vectors; ++v) rest[row][v] = *(const Vector *)(starts[row] + at + v * Lanes);
        for (Size head = 0; head < task.heads; ++head, panel += Lanes * Vectors) {
            for (int v = 0; v < Vectors; ++v) part[v] = *(const Vector *)(panel + v * Lanes);
            for (int row = 0; row < Rows; ++row)
                for (int v = 0; v < Vectors; ++v) rest[row][v] -= weights[head * Stride + row] * part[v];
        }
        for (int row = 0; row < Rows; ++row)  // without the bit of the sign
            for (int v = 0; v < Vectors; ++v) total[row] += (Vector)((Bits)rest[row][v] & 0x7fffffff);
    }
    for (int row = 0; row < Rows; ++row)
        for (int lane = 0; lane < Lanes; ++lane) to[row * task.sources] += total[row][lane];
}

// Measure all rows of one example that see any of a few sources.
template <int Lanes, int Vectors, int Rows> INLINE void measure_item(const Task &task, Size item) {
    constexpr Size tile = Lanes * Vectors;
    const Size example = item / task.blocks(), first = item % task.blocks() * SOURCES, heads = task.heads;
    const Size last = std::min(first + SOURCES, task.sources), lines = SOURCES * std::max<Size>(1, heads);
    const Size widest = std::max<Size>(1, PANEL / (lines * tile)) * tile;
    thread_local std::vector<CacheLine> memory;  // kept from call to call: fresh memory is slow
    memory.resize(std::max<Size>(memory.size(), (lines * widest + heads * Rows) / 16 + 1));
    float *const panels = memory[0].floats, *const weights = panels + lines * widest;
    for (Size at = 0; at < task.width; at += widest) {
        const Size left = task.width - at, width = std::min(widest, (left + tile - 1) / tile * tile);
        const float *from = task.projected + example * task.p.example + at;
        for (Size j = first; j < last; ++j)
            pack<tile>(task, from + j * task.p.source, left, width, panels + (j - first) * heads * width);
        for (Size block = std::max<Size>(0, first - task.first); block < task.rows; block += Rows)
            for (Size j = first; j < last; ++j) {
                const Size row = std::max(block, j - task.first), end = std::min(block + Rows, task.rows);
                const float *starts[Rows], *panel = panels + (j - first) * heads * width;
                float *to = task.rest + (example * task.rows + row) * task.sources + j;
                for (Size k = 0; k < end - row; ++k) {
                    const Size plane = example + (j == task.first + row + k ? task.examples : 0);
                    starts[k] = task.starts + (plane * task.rows + row + k) * task.padded + at;
                    const float *own = task.weights + example * task.a.example + (row + k) * task.a.row;
                    for (Size head = 0; head < heads; ++head)
                        weights[head * Rows + k] = own[head * task.a.head + j * task.a.source];
                }
                if (row >= end) continue;  // none of these rows sees the source
                measure_rows<Lanes, Vectors, Rows, Rows>(task, end - row, width, starts, weights, panel, to);
            }
    }
}

// As many rows and vectors as the registers of a kind of CPU hold; tiles of vectors divide the padded width.
#ifdef __x86_64__
#define FOR(features) __attribute__((target(features)))
FOR("avx512f") void measure_512(const Task &task, Size item) { measure_item<16, 4, 6>(task, item); }
FOR("avx2,fma") void measure_256(const Task &task, Size item) { measure_item<8, 2, 6>(task, item); }
#endif
void measure_128(const Task &task, Size item) { measure_item<4, 2, 6>(task, item); }

void do_work(void *shared) {
    Task &task = *static_cast<Task *>(shared);
    for (Size item; (item = task.next++) < task.examples * task.blocks();) task.measure(task, item);
}

// Torch's own threads (OpenMP) wait awake, in the way of any others: they do it where they can be asked to.
void share(Task &task, Size threads) {
    using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
    static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    if (parallel && threads > 1) return parallel(do_work, &task, unsigned(threads), 0);
    std::vector<std::thread> helpers;
    try {
        while (Size(helpers.size()) + 1 < threads) helpers.emplace_back(do_work, &task);
    } catch (...) {}  // no more are to be had: those that are do the work
    do_work(&task);
    for (std::thread &helper : helpers) helper.join();
}

PyObject *measure_rest(PyObject *, PyObject *arguments) {
    static_assert(sizeof(void *) == sizeof(long long), "addresses are read as such");
    Task task;
    Size threads, lanes;
    if (!PyArg_ParseTuple(arguments, "K(nnnn)K(nnn)KK(nnnnn)nnnn", &task.weights, &task.a.example,
                          &task.a.head, &task.a.row, &task.a.source, &task.projected, &task.p.example,
                          &task.p.head, &task.p.source, &task.starts, &task.rest, &task.examples,
                          &task.heads, &task.rows, &task.sources, &task.width, &task.padded, &task.first,
                          &threads, &lanes))
        return nullptr;
    task.measure = measure_128;
#ifdef __x86_64__
    const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (lanes >= 8 && fused) task.measure = measure_256;
    if (lanes >= 16 && __builtin_cpu_supports("avx512f")) task.measure = measure_512;
#endif
    Py_BEGIN_ALLOW_THREADS
    share(task, threads);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"measure_rest", measure_rest, METH_VARARGS, nullptr}, {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", nullptr, 0, methods};
}  // namespace
PyMODINIT_FUNC PyInit__kernel() { return PyModule_Create(&definition); }

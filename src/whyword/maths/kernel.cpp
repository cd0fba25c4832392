// ‖y_i − Σ_h A[h,i,j] P[h,j]‖₁ for pairs of a row i and a source j; kernel.py calls it and says what is what.
// For a few rows and one source, some vectors of the width at a time: heads are summed in registers, absolute
// values are added up at once, one number per pair is written. P is packed in panels and A by blocks of rows before
// they are read again and again: as they lie in memory, heads push each other out of the caches.

#include <Python.h>
#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <numeric>
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
    Size items() const { return (sources + SOURCES - 1) / SOURCES; }
};

// Copy P of one source, from a place of the width on, as [tile, head, place in the tile]; zeros at the end.
template <Size Tile> INLINE void pack(const Task &task, const float *from, Size left, Size width, float *to) {
    for (Size head = 0; head < task.heads; ++head, from += task.p.head)
        for (Size at = 0; at < width; at += Tile) {
            float *tile = to + at * task.heads + head * Tile;
            if (at + Tile <= left) __builtin_memcpy(tile, from + at, Tile * sizeof(float));
            else std::fill(std::copy(from + at, from + left, tile), tile + Tile, 0.0f);
        }
}

// Add |y_i − Σ_h A[h,i,j] P[h,j]| over the width of a panel to sums by lane, for up to `Rows` rows and one source.
template <int Lanes, int Vectors, int Rows, int Stride>
INLINE void measure_rows(Size rows, Size heads, Size width, const float **starts, const float *weights,
                         const float *panel, float *sums) {
    if constexpr (Rows > 1) if (rows < Rows)  // the last ones are fewer
        return measure_rows<Lanes, Vectors, Rows - 1, Stride>(rows, heads, width, starts, weights, panel, sums);
    typedef float Vector __attribute__((vector_size(4 * Lanes), aligned(4), may_alias));
    typedef int Bits __attribute__((vector_size(4 * Lanes)));
    Vector total[Rows];
    for (int row = 0; row < Rows; ++row) total[row] = *(const Vector *)(sums + row * Lanes);
    for (Size at = 0; at < width; at += Lanes * Vectors) {
        Vector rest[Rows][Vectors], part[Vectors];
        for (int row = 0; row < Rows; ++row)
            for (int v = 0; v < Vectors; ++v) rest[row][v] = *(const Vector *)(starts[row] + at + v * Lanes);
        for (Size head = 0; head < heads; ++head, panel += Lanes * Vectors) {
            for (int v = 0; v < Vectors; ++v) part[v] = *(const Vector *)(panel + v * Lanes);
            for (int row = 0; row < Rows; ++row)
                for (int v = 0; v < Vectors; ++v) rest[row][v] -= weights[head * Stride + row] * part[v];
        }
        for (int row = 0; row < Rows; ++row)  // without the bit of the sign
            for (int v = 0; v < Vectors; ++v) total[row] += (Vector)((Bits)rest[row][v] & 0x7fffffff);
    }
    for (int row = 0; row < Rows; ++row) *(Vector *)(sums + row * Lanes) = total[row];
}

// Measure all rows of one example that see any of a few sources.
template <int Lanes, int Vectors, int Rows> INLINE void measure_item(const Task &task, Size item) {
    constexpr Size tile = Lanes * Vectors;
    const Size example = item / task.items(), first = item % task.items() * SOURCES, heads = task.heads;
    const Size count = std::min(SOURCES, task.sources - first), top = std::max<Size>(0, first - task.first);
    if (top >= task.rows) return;  // none of the rows sees them
    const Size pairs = (task.rows - top + Rows - 1) / Rows * Rows * count;  // of whole blocks of rows
    const Size widest = std::max<Size>(1, PANEL / (count * std::max<Size>(1, heads) * tile)) * tile;
    thread_local std::vector<CacheLine> memory;  // kept from call to call: fresh memory is slow
    memory.resize(std::max<Size>(memory.size(), (count * heads * widest + pairs * (heads + Lanes)) / 16 + 1));
    float *const panels = memory[0].floats, *const sums = panels + count * heads * widest;
    float *const weights = sums + pairs * Lanes;  // [block of rows, source, head, row]; sums: with lanes last
    std::fill(sums, weights, 0.0f);
    for (Size row = top; row < task.rows; ++row) for (Size head = 0; head < heads; ++head) {
        const float *from = task.weights + example * task.a.example + head * task.a.head + row * task.a.row;
        float *to = weights + ((row - top) / Rows * count * heads + head) * Rows + (row - top) % Rows;
        for (Size j = 0; j < count; ++j) to[j * heads * Rows] = from[(first + j) * task.a.source];
    }
    for (Size at = 0; at < task.width; at += widest) {
        const Size left = task.width - at, width = std::min(widest, (left + tile - 1) / tile * tile);
        const float *from = task.projected + example * task.p.example + first * task.p.source + at;
        for (Size j = 0; j < count; ++j)
            pack<tile>(task, from + j * task.p.source, left, width, panels + j * heads * width);
        for (Size block = top; block < task.rows; block += Rows) for (Size j = 0; j < count; ++j) {
            const Size own = first + j - task.first, row = std::max(block, own), skip = row - block;
            const Size rows = std::min(block + Rows, task.rows) - row, pair = (block - top) * count + j * Rows;
            const float *starts[Rows], *parts = panels + j * heads * width;
            for (Size k = 0; k < rows; ++k) {
                const Size plane = example + (row + k == own ? task.examples : 0);
                starts[k] = task.starts + (plane * task.rows + row + k) * task.padded + at;
            }
            if (rows > 0) measure_rows<Lanes, Vectors, Rows, Rows>(  // else none of these sees the source
                rows, heads, width, starts, weights + pair * heads + skip, parts, sums + (pair + skip) * Lanes);
        }
    }
    for (Size row = top; row < task.rows; ++row) for (Size j = 0; j < count && first + j <= task.first + row; ++j) {
        const float *own = sums + (((row - top) / Rows * count + j) * Rows + (row - top) % Rows) * Lanes;
        task.rest[(example * task.rows + row) * task.sources + first + j] = std::accumulate(own, own + Lanes, 0.0f);
    }
}

// As many rows and vectors as the registers of a kind of CPU hold; tiles of vectors divide the padded width.
void measure_128(const Task &task, Size item) { measure_item<4, 2, 6>(task, item); }
#ifdef __x86_64__
#define FOR(features) __attribute__((target(features)))
FOR("avx2,fma") void measure_256(const Task &task, Size item) { measure_item<8, 2, 6>(task, item); }
FOR("avx512f") void measure_512(const Task &task, Size item) { measure_item<16, 4, 6>(task, item); }
#endif

void do_work(void *shared) {
    Task &task = *static_cast<Task *>(shared);
    for (Size item; (item = task.next++) < task.examples * task.items();) task.measure(task, item);
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

// Add up some numbers, sixteen of them side by side.
template <class Number> INLINE float add_up(Size count, Number number) {
    float sums[16] = {};
    Size at = 0;
    for (; at + 16 <= count; at += 16) for (int lane = 0; lane < 16; ++lane) sums[lane] += number(at + lane);
    for (; at < count; ++at) sums[at % 16] += number(at);
    return std::accumulate(sums, sums + 16, 0.0f);
}

// Turn the distances of all rows into shares, in their place: max(0, ‖y_i‖₁ − distance), visible sources sum to 1. A
// row in which all are 0 becomes the identity row; NaN stays NaN.
void share_out(const float *starts, float *rest, Size examples, Size rows, Size sources, Size padded, Size first) {
    for (Size row = 0; row < examples * rows; ++row, starts += padded, rest += sources) {
        const Size own = first + row % rows, seen = std::min(own + 1, sources);
        const float length = add_up(padded, [=](Size at) { return starts[at] < 0 ? -starts[at] : starts[at]; });
        for (Size j = 0; j < seen; ++j) rest[j] = length < rest[j] ? 0.0f : length - rest[j];
        const float total = add_up(seen, [=](Size j) { return rest[j]; });
        if (total == 0) rest[own] = 1.0f;
        else for (Size j = 0; j < seen; ++j) rest[j] /= total;
    }
}

PyObject *turn_into_shares(PyObject *, PyObject *arguments) {
    const float *starts; float *rest; Size examples, rows, sources, padded, first;
    if (!PyArg_ParseTuple(arguments, "KKnnnnn", &starts, &rest, &examples, &rows, &sources, &padded, &first))
        return nullptr;
    Py_BEGIN_ALLOW_THREADS share_out(starts, rest, examples, rows, sources, padded, first); Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *measure_rest(PyObject *, PyObject *arguments) {
    static_assert(sizeof(void *) == sizeof(long long), "addresses are read as such");
    Task task; Size threads, lanes;
    if (!PyArg_ParseTuple(
            arguments, "K(nnnn)K(nnn)KK(nnnnn)nnnn", &task.weights, &task.a.example, &task.a.head, &task.a.row,
            &task.a.source, &task.projected, &task.p.example, &task.p.head, &task.p.source, &task.starts, &task.rest,
            &task.examples, &task.heads, &task.rows, &task.sources, &task.width, &task.padded, &task.first, &threads,
            &lanes)) return nullptr;
    task.measure = measure_128;
#ifdef __x86_64__
    if (lanes >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) task.measure = measure_256;
    if (lanes >= 16 && __builtin_cpu_supports("avx512f")) task.measure = measure_512;
#endif
    Py_BEGIN_ALLOW_THREADS share(task, threads); Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"measure_rest", measure_rest, METH_VARARGS, nullptr},
    {"turn_into_shares", turn_into_shares, METH_VARARGS, nullptr},
    {},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernel", nullptr, 0, methods};
}  // namespace
PyMODINIT_FUNC PyInit__kernel() { return PyModule_Create(&definition); }

// The kernel without Python and torch, so with threads of its own: the plain sum for any shape and number of
// threads. test_kernel.py compiles it with every compiler that there is.

#include "../src/whyword/maths/kernel.cpp"
#include <cmath>
#include <cstdio>

using Measure = void (*)(const Task &, Size);

double noise(Size seed) { return std::sin(double(seed * seed % 9973)); }

double measure_plainly(const Task &task, Size example, Size row, Size source) {
    const Size own = source == task.first + row ? task.examples : 0;
    double rest = 0;
    for (Size at = 0; at < task.width; ++at) {
        double left = task.starts[((own + example) * task.rows + row) * task.padded + at];
        for (Size head = 0; head < task.heads; ++head)
            left -= double(task.weights[example * task.a.example + head * task.a.head + row * task.a.row + source]) *
                    task.projected[example * task.p.example + head * task.p.head + source * task.p.source + at];
        rest += std::fabs(left);
    }
    return rest;
}

double find_error(Measure measure, Size examples, Size heads, Size rows, Size sources, Size width, Size first) {
    const Size padded = (width + 63) / 64 * 64;
    std::vector<float> weights(examples * heads * rows * sources), projected(examples * heads * sources * width);
    std::vector<float> starts(2 * examples * rows * padded), once;
    for (Size at = 0; at < Size(weights.size()); ++at) weights[at] = float(noise(at + 1));
    for (Size at = 0; at < Size(projected.size()); ++at) projected[at] = float(noise(at + 7));
    for (Size at = 0; at < Size(starts.size()); ++at) starts[at] = at % padded < width ? float(noise(at + 3)) : 0.0f;
    double worst = 0;
    for (Size threads : {1, 2, 5}) {
        std::vector<float> rest(examples * rows * sources);
        Task task;
        task.weights = weights.data(), task.projected = projected.data();
        task.starts = starts.data(), task.rest = rest.data(), task.measure = measure;
        task.a = {heads * rows * sources, rows * sources, sources, 1};
        task.p = {heads * sources * width, sources * width, width, 1};
        task.examples = examples, task.heads = heads, task.rows = rows, task.sources = sources;
        task.width = width, task.padded = padded, task.first = first;
        share(task, threads);
        if (threads > 1 && rest != once) return INFINITY;  // the same whatever the number of threads
        once = rest;
        for (Size at = 0; at < Size(rest.size()); ++at) {
            const Size source = at % sources, row = at / sources % rows, example = at / sources / rows;
            const double plain = source <= first + row ? measure_plainly(task, example, row, source) : 0;
            worst = std::max(worst, std::fabs(rest[at] - plain) / std::max(plain, 1.0));
        }
    }
    return worst;
}

int main() {
    std::vector<Measure> kinds = {measure_128};
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kinds.push_back(measure_256);
    if (__builtin_cpu_supports("avx512f")) kinds.push_back(measure_512);
#endif
    double worst = 0;
    for (Measure measure : kinds) {
        worst = std::max(worst, find_error(measure, 2, 3, 37, 37, 100, 0));   // causal
        worst = std::max(worst, find_error(measure, 1, 5, 20, 45, 64, 25));   // rows that are not the first
        worst = std::max(worst, find_error(measure, 1, 2, 11, 30, 769, 30));  // every source is seen
    }
    std::printf("%d %s %.1e\n", int(kinds.size()), dlsym(RTLD_DEFAULT, "GOMP_parallel") ? "OpenMP" : "threads", worst);
    return worst < 1e-5 ? 0 : 1;
}

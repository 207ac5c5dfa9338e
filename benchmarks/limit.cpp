// Cycles of the inner loops beside the most fused multiply-adds the processor can do. Built and run by limit.py.
#define SIGGPDE_ISA avx512
#define SIGGPDE_VECTOR_BYTES 64
#include <immintrin.h>
#include <x86intrin.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "diagonal_grid.hpp"

using namespace siggpde;

// The least of many tries, in ticks of the time-stamp counter.
template <class Work>
double ticks(int repeats, const Work& work) {
    double best = 1e300;
    for (int attempt = 0; attempt < 100; ++attempt) {
        const auto start = __rdtsc();
        for (int i = 0; i < repeats; ++i) work();
        const double taken = double(__rdtsc() - start) / repeats;
        best = taken < best ? taken : best;
    }
    return best;
}

double peak() {
    __m512d a = _mm512_set1_pd(1), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;
    const __m512d x = _mm512_set1_pd(0.999), y = _mm512_set1_pd(0.001);
    const double taken = ticks(100000, [&] {
        asm volatile(
            "vfmadd213pd %13,%12,%0\n vfmadd213pd %13,%12,%1\n vfmadd213pd %13,%12,%2\n vfmadd213pd %13,%12,%3\n"
            "vfmadd213pd %13,%12,%4\n vfmadd213pd %13,%12,%5\n vfmadd213pd %13,%12,%6\n vfmadd213pd %13,%12,%7\n"
            "vfmadd213pd %13,%12,%8\n vfmadd213pd %13,%12,%9\n vfmadd213pd %13,%12,%10\n vfmadd213pd %13,%12,%11\n"
            : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l)
            : "v"(x), "v"(y));
    });
    return 12 / taken;
}

template <int M, int Cut>
void grid(long steps, int channels, bool gradient) {
    const long size = steps * channels * 8;
    auto* x = static_cast<double*>(std::aligned_alloc(64, 2 * size * sizeof(double)));
    for (long i = 0; i < size; ++i) x[i] = ((unsigned(i) * 2654435761u >> 8) % 1000 / 1000.0 - 0.5) * 0.3;
    alignas(64) double value[8], fall[16];
    GridTask<double> task;
    task.x = x;
    task.rows = task.columns = steps;
    task.channels = channels;
    task.value = value;
    task.fall = fall;
    task.gradient_x = gradient ? x + size : nullptr;
    const double taken = ticks(20, [&] { avx512::solve_diagonal<double, M, Cut>(task); });
    std::printf("%d %ld %d %d %.3f\n", M, steps, channels, int(gradient), taken / (double(steps) * double(steps + 1) / 2));
    std::free(x);
}

template <int M, int Cut>
void grids() {
    for (bool gradient : {false, true}) {
        grid<M, Cut>(45, 2, gradient);
        grid<M, Cut>(199, 5, gradient);
    }
}

int main() {
    std::printf("%.3f\n", peak());
    grids<1, 2>();
    grids<2, 0>();
    grids<3, 0>();
    grids<4, 0>();
}

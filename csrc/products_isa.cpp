// Tiles of rows in registers.
#include "products.hpp"

#include "lanes.hpp"

#if defined(SIGGPDE_X86)
#include <immintrin.h>
#endif

namespace siggpde::SIGGPDE_ISA {

namespace {

using V = vec<double>;
constexpr int W = width<double>;

// Sums of products of a pair of rows, `step` columns at a time: multiply them, then take the sum of all.
template <class T>
struct Sums;

template <>
struct Sums<float> {
    static constexpr int step = 8, vectors = step / W;
    struct Numbers {
        V of[vectors];
    };
    V total[vectors] = {};

    static Numbers load(const float* from) {
        typedef float Singles __attribute__((vector_size(W * sizeof(float))));
        Numbers out;
        for (int v = 0; v < vectors; ++v) {
            Singles singles;
            __builtin_memcpy(&singles, from + v * W, sizeof singles);
            out.of[v] = __builtin_convertvector(singles, V);
        }
        return out;
    }
    void add(const Numbers& x, const Numbers& y) {
        for (int v = 0; v < vectors; ++v) {
#if !defined(SIGGPDE_X86) || SIGGPDE_VECTOR_BYTES == 16
            total[v] += x.of[v] * y.of[v];
#elif SIGGPDE_VECTOR_BYTES == 64  // the product is exact: fused or not, the sum is the same
            total[v] = _mm512_fmadd_pd(x.of[v], y.of[v], total[v]);
#else
            total[v] = _mm256_fmadd_pd(x.of[v], y.of[v], total[v]);
#endif
        }
    }
    void widen() {}
    double sum() const {
        double s[step];
        for (int v = 0; v < vectors; ++v) store<double>(s + v * W, total[v]);
        return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
    }
};

template <>
struct Sums<short> {
    static constexpr int step = SIGGPDE_VECTOR_BYTES / int(sizeof(short));
    using Ints = vec<int>;
    typedef short Numbers __attribute__((vector_size(SIGGPDE_VECTOR_BYTES)));
    Ints some = {};  // of pairs of products, at most four of which 31 bits hold
    V total = {};

    static Numbers load(const short* from) {
        Numbers out;
        __builtin_memcpy(&out, from, sizeof out);
        return out;
    }
    void add(Numbers x, Numbers y) {
#if !defined(SIGGPDE_X86)
        for (int i = 0; i < step / 2; ++i) some[i] += int(x[2 * i]) * y[2 * i] + int(x[2 * i + 1]) * y[2 * i + 1];
#elif SIGGPDE_VECTOR_BYTES == 64
        some += Ints(_mm512_madd_epi16(__m512i(x), __m512i(y)));
#elif SIGGPDE_VECTOR_BYTES == 32
        some += Ints(_mm256_madd_epi16(__m256i(x), __m256i(y)));
#else
        some += Ints(_mm_madd_epi16(__m128i(x), __m128i(y)));
#endif
    }
    void widen() {
        typedef int Half __attribute__((vector_size(SIGGPDE_VECTOR_BYTES / 2)));
        Half halves[2];
        __builtin_memcpy(halves, &some, sizeof halves);
        total += __builtin_convertvector(halves[0], V) + __builtin_convertvector(halves[1], V);
        some = Ints{};
    }
    double sum() const { return sum_of_lanes<double>(total); }
};

constexpr int steps_together = 4;

template <class T, int A, int B>
inline __attribute__((always_inline)) void multiply(const T* x, long x_row, const T* y, long y_row, Sums<T> (&sums)[A][B]) {
    typename Sums<T>::Numbers of_x[A];
#pragma GCC unroll 8
    for (int a = 0; a < A; ++a) of_x[a] = Sums<T>::load(x + a * x_row);
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
        const auto of_y = Sums<T>::load(y + b * y_row);
#pragma GCC unroll 8
        for (int a = 0; a < A; ++a) sums[a][b].add(of_x[a], of_y);
    }
}

template <class T, int A, int B>
void tile(const T* x, long x_row, const T* y, long y_row, long columns, double scale, double* out, long out_row) {
    constexpr int step = Sums<T>::step, together = steps_together * step;
    Sums<T> sums[A][B];
    const auto block = [&](const T* x, long x_row, const T* y, long y_row) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int k = 0; k < together; k += step) multiply<T, A, B>(x + k, x_row, y + k, y_row, sums);
#pragma GCC unroll 8
        for (int a = 0; a < A; ++a)
#pragma GCC unroll 8
            for (int b = 0; b < B; ++b) sums[a][b].widen();
    };
    long c = 0;
    for (; c + together <= columns; c += together) {
        for (int b = 0; b < B; ++b)  // of the next tile
            for (long byte = 0; byte < long(together * sizeof(T)); byte += 64)
                __builtin_prefetch(reinterpret_cast<const char*>(y + (B + b) * y_row + c) + byte);
        block(x + c, x_row, y + c, y_row);
    }
    if (c < columns) {  // the last numbers, beside zeros
        T of_x[A][together] = {}, of_y[B][together] = {};
        for (int a = 0; a < A; ++a) __builtin_memcpy(of_x[a], x + a * x_row + c, (columns - c) * sizeof(T));
        for (int b = 0; b < B; ++b) __builtin_memcpy(of_y[b], y + b * y_row + c, (columns - c) * sizeof(T));
        block(of_x[0], together, of_y[0], together);
    }
    for (int a = 0; a < A; ++a)
        for (int b = 0; b < B; ++b) out[a * out_row + b] += scale * sums[a][b].sum();
}

template <class T>
void add(const T* x, long x_row, long n, const T* y, long y_row, long m, long columns, double scale, double* out,
         long out_row) {
    constexpr int most_x = W == 8 ? 4 : W == 4 ? 2 : 1, most_y = W == 8 ? 4 : 2;
    for (long j = 0; j < m;) {
        const bool several = j + most_y <= m;
        const T* const rows = y + j * y_row;
        for (long i = 0; i < n;) {
            const T* const row = x + i * x_row;
            double* const to = out + i * out_row + j;
            const bool together = several && i + most_x <= n;
            if (together)
                tile<T, most_x, most_y>(row, x_row, rows, y_row, columns, scale, to, out_row);
            else if (several)
                tile<T, 1, most_y>(row, x_row, rows, y_row, columns, scale, to, out_row);
            else
                tile<T, 1, 1>(row, x_row, rows, y_row, columns, scale, to, out_row);
            i += together ? most_x : 1;
        }
        j += several ? most_y : 1;
    }
}

}  // namespace

extern const ProductLoops<short> products_short;
extern const ProductLoops<float> products_float;
const ProductLoops<short> products_short = {add<short>};
const ProductLoops<float> products_float = {add<float>};

}  // namespace siggpde::SIGGPDE_ISA

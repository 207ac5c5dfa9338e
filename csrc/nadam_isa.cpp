// The rows of a Nadam step, compiled once for each instruction set.
#include "lanes.hpp"
#include "nadam.hpp"

namespace siggpde::SIGGPDE_ISA {

namespace {

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <class T>
double sum_of_squares(const T* __restrict value, long count) {
    constexpr long step = 2 * width<T>;
    vec<T> totals[2] = {};
    long j = 0;
    for (; j + step <= count; j += step)
        for (int half = 0; half < 2; ++half) {
            vec<T> part;
            __builtin_memcpy(&part, value + j + half * width<T>, sizeof part);
            totals[half] += part * part;
        }
    double total = double(sum_of_lanes<T>(totals[0] + totals[1]));
    for (; j < count; ++j) total += double(value[j]) * double(value[j]);
    return total;
}

template <class T>
inline void move(T& value, T& first, T& second, T g, const NadamRates<T>& rates) {
    const T m = first + rates.of_first_moment * (g - first);
    const T v = rates.keep_second * second + rates.of_second_moment * g * g;
    first = m;
    second = v;
    value -= (rates.of_gradient * g + rates.of_first * m) / (root(v * rates.correction) + rates.eps);
}

template <class T>
double rows(const NadamMatrix<T>& matrix, const NadamRates<T>& given, long begin, long end) {
    const NadamRates<T> rates = given;
    double squares = 0;
    for (long i = begin; i < end; ++i) {
        const long at = i * matrix.size;
        T* __restrict value = matrix.value + at;
        const T* __restrict gradient = matrix.gradient + (i - matrix.origin) * matrix.size;
        T* __restrict first = matrix.first + at;
        T* __restrict second = matrix.second + at;
        squares += sum_of_squares(value, i + 1);
        for (long j = 0; j < i; ++j) move(value[j], first[j], second[j], gradient[j] + value[j], rates);
        move(value[i], first[i], second[i], gradient[i] + value[i] - T(1) / value[i], rates);
    }
    return squares;
}

}  // namespace

extern const NadamLoops nadam_loops;
const NadamLoops nadam_loops = {rows<float>, rows<double>};

}  // namespace siggpde::SIGGPDE_ISA

// Statistics over the windows of each lane's series, whole and by thirds, without the windows ever being stored.
//
// Windows come in blocks, third after third. A lane with fewer windows in a third than another repeats its first
// window: deviations from the first window are summed up, so that this adds zeros to the sums and changes neither the
// largest nor the smallest value; only the counts above thresholds are put right at the end.
#pragma once

#include "window_signature.hpp"

namespace siggpde::SIGGPDE_ISA {

constexpr int windows_together = 8;  // a block: statistics are loaded and stored once for so many windows

template <class T>
struct WindowPool {
    using V = vec<T>;
    using Count = decltype(V{} > V{});
    static constexpr int W = width<T>;
    static constexpr int kept = 5;  // first, current sum, squares, largest, smallest

    int columns, n_thresholds;
    const T* thresholds;
    V* block;       // [column][windows_together]
    V* state;       // [column][kept]
    V* third_sums;  // [third][column]
    Count* counts;  // [third][column][threshold]
    V in_third[3], surplus[3];

    static long memory(const WindowView& view, int n_thresholds) {
        return long(view.columns) * (windows_together + kept + 3 + 3 * n_thresholds);
    }

    WindowPool(const WindowView& view, const WindowNumbers<T>& numbers, V* memory)
        : columns(view.columns), n_thresholds(numbers.n_thresholds), thresholds(numbers.thresholds), block(memory) {
        state = block + long(columns) * windows_together;
        third_sums = state + long(columns) * kept;
        counts = reinterpret_cast<Count*>(third_sums + 3L * columns);
        for (long i = 0; i < 3L * columns * n_thresholds; ++i) counts[i] = Count{};
    }

    // The first window of every lane is the first of the block.
    void begin() {
        for (int m = 0; m < columns; ++m) {
            const V first = block[long(m) * windows_together];
            V* at = state + long(m) * kept;
            at[0] = at[3] = at[4] = first;
            at[1] = at[2] = V{};
        }
    }

    void add(int third, int windows) {
        Count* count = counts + long(third) * columns * n_thresholds;
        if (windows == windows_together)
            add_block<windows_together>(count, windows);
        else
            add_block<0>(count, windows);
    }

    void end_third(int third) {
        for (int m = 0; m < columns; ++m) {
            third_sums[long(third) * columns + m] = state[long(m) * kept + 1];
            state[long(m) * kept + 1] = V{};
        }
    }

    // The statistics of column m: out[statistic * out_step], first those of the whole series, then of thirds.
    void finish(int m, V windows, V* out, long out_step) const {
        const V* at = state + long(m) * kept;
        const V first = at[0], share = T(1) / windows;
        V sum{}, third_mean[3];
        for (int t = 0; t < 3; ++t) sum += third_sums[long(t) * columns + m];
        const V mean = first + sum * share;
        V variance = at[2] * share - (sum * share) * (sum * share);
        variance = variance > V{} ? variance : V{};
        out[0] = mean;
        out[out_step] = root_of_lanes<T>(variance);
        out[2 * out_step] = at[3];
        out[3 * out_step] = at[4];
        V* of_thirds = out + whole_statistics(n_thresholds) * out_step;
        for (int t = 0; t < 3; ++t) {
            third_mean[t] = first + third_sums[long(t) * columns + m] / in_third[t];
            of_thirds[t * out_step] = in_third[t] > V{} ? third_mean[t] : mean;
        }
        for (int j = 0; j < n_thresholds; ++j) {
            V above[3], total{};
            for (int t = 0; t < 3; ++t) {
                const Count count = counts[(long(t) * columns + m) * n_thresholds + j];
                above[t] = __builtin_convertvector(count, V) -
                           (first > thresholds[long(m) * n_thresholds + j] ? surplus[t] : V{});
                total += above[t];
            }
            out[(4 + j) * out_step] = total * share;
            if (j % 2) continue;
            for (int t = 0; t < 3; ++t)
                of_thirds[(3 * (1 + j / 2) + t) * out_step] = in_third[t] > V{} ? above[t] / in_third[t] : total * share;
        }
    }

private:
    template <int fixed>
    inline __attribute__((always_inline)) void add_block(Count* count, int windows) {
        const int n = fixed ? fixed : windows;
        for (int m = 0; m < columns; ++m, count += n_thresholds) {
            const V* f = block + long(m) * windows_together;
            V* at = state + long(m) * kept;
            const V first = at[0];
            V sum = at[1], squares = at[2], largest = at[3], smallest = at[4];
#pragma GCC unroll 8
            for (int b = 0; b < n; ++b) {
                const V deviation = f[b] - first;
                sum += deviation;
                squares += deviation * deviation;
                largest = f[b] > largest ? f[b] : largest;
                smallest = f[b] < smallest ? f[b] : smallest;
            }
            at[1] = sum, at[2] = squares, at[3] = largest, at[4] = smallest;
            for (int j = 0; j < n_thresholds; ++j) {
                const V threshold = broadcast<T>(thresholds[long(m) * n_thresholds + j]);
                Count above = count[j];
#pragma GCC unroll 8
                for (int b = 0; b < n; ++b) above = f[b] > threshold ? above + 1 : above;
                count[j] = above;
            }
        }
    }
};

}  // namespace siggpde::SIGGPDE_ISA

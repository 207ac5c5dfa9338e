// Thresholds near the quantiles of the columns of a table, midway between two values. The values of a column are
// distributed to bins, and only the bins that are looked at are sorted.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "parallel.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

constexpr int bins = 512;
constexpr long columns_together = 8;  // a cache line of numbers: a table is read by rows

// Finite values, sorted as far as they are asked for.
class SortedColumn {
public:
    // `low` and `high` are the smallest and the largest of the values.
    SortedColumn(const double* values, long count, double low, double high) : bin_(count), values_(count) {
        const double factor = (bins - 1) / (high - low);
        const bool few = !std::isfinite(factor);  // values: they are all in one bin
        for (long i = 0; i < count; ++i) bin_[i] = few ? 0 : int((values[i] - low) * factor);  // monotone, as rounding is
        for (long i = 0; i < count; ++i) ++start_[bin_[i] + 1];
        for (int b = 0; b < bins; ++b) start_[b + 1] += start_[b];
        long next[bins];
        std::copy_n(start_, bins, next);
        for (long i = 0; i < count; ++i) values_[next[bin_[i]]++] = values[i];
    }

    double at(long rank) {
        if (rank < begin_ || rank >= end_) {
            const long bin = std::upper_bound(start_, start_ + bins, rank) - start_ - 1;
            begin_ = start_[bin];
            end_ = start_[bin + 1];
            if (!sorted_[bin]) std::sort(values_.begin() + begin_, values_.begin() + end_);
            sorted_[bin] = true;
        }
        return values_[rank];
    }

private:
    std::vector<int> bin_;
    std::vector<double> values_;
    long start_[bins + 1] = {};
    bool sorted_[bins] = {};
    long begin_ = 0, end_ = 0;  // of the bin that was looked at last
};

// The middle of the gap above `distinct` that is nearest to the rank p (count - 1), p = j / parts, the upper one of two;
// `otherwise` where there is none.
double middle_of_gap(SortedColumn& column, long count, long j, long parts, double distinct, double otherwise) {
    const long last = count - 1, below = j * last / parts;
    const auto wide = [&](long k) { return column.at(k) - column.at(k - 1) > distinct; };
    const auto distance = [&](long k) { return std::labs((2 * k - 1) * parts - 2 * j * last); };  // times 2 parts
    long up = below + 1, down = below;
    while (up <= last && !wide(up)) ++up;
    const auto nearer = [&] { return down > 0 && (up > last || distance(down) < distance(up)); };
    while (nearer() && !wide(down)) --down;
    const long k = nearer() ? down : up;
    return k > last ? otherwise : (column.at(k - 1) + column.at(k)) / 2;
}

// values (count, columns) -> out (thresholds, columns).
void separating_thresholds(std::uintptr_t values, long count, long columns, long thresholds, double distinct,
                           double clearance, std::uintptr_t out, int threads) {
    nb::gil_scoped_release release;
    const double* const table = reinterpret_cast<const double*>(values);
    double* const result = reinterpret_cast<double*>(out);
    const long tasks = (columns + columns_together - 1) / columns_together;
    parallel_for(useful_threads(threads, double(count) * double(columns)), tasks, [&](long task) {
        const long first = task * columns_together, some = std::min(columns_together, columns - first);
        std::vector<double> values_of(count * some);
        for (long i = 0; i < count; ++i)
            for (long c = 0; c < some; ++c) values_of[c * count + i] = table[i * columns + first + c];
        for (long c = 0; c < some; ++c) {
            const double* const column = values_of.data() + c * count;
            const auto [low, high] = std::minmax_element(column, column + count);
            SortedColumn sorted(column, count, *low, *high);
            for (long j = 1; j <= thresholds; ++j)
                result[(j - 1) * columns + first + c] =
                    middle_of_gap(sorted, count, j, thresholds + 1, distinct, *high + clearance);
        }
    });
}

}  // namespace

void bind_quantiles(nb::module_& module) { module.def("separating_thresholds", &separating_thresholds); }

}  // namespace siggpde

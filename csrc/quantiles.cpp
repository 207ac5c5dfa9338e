// Quantiles of the columns of a table, by order statistics: values are counted in bins, and only the bins that a wanted
// rank falls in are sorted.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "parallel.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

constexpr int bins = 512;
constexpr long columns_together = 16;  // a cache line of floats: a table is read by rows

// Finds the values of given ranks, ascending (0 is that of the smallest), among finite values.
template <class T>
class OrderStatistics {
public:
    OrderStatistics(const std::vector<long>& ranks, long count) : ranks_(ranks), places_(ranks.size()), bin_(count) {}

    // `low` and `high` are the smallest and the largest of the values.
    void operator()(const T* values, T low, T high, T* out) {
        const long count = long(bin_.size());
        const T factor = T(bins - 1) / (high - low);
        const bool few = !(high > low) || !std::isfinite(factor);  // values: they are all in one bin
        for (long i = 0; i < count; ++i) bin_[i] = few ? 0 : int((values[i] - low) * factor);  // monotone, as rounding is
        int counts[bins] = {};
        for (long i = 0; i < count; ++i) ++counts[bin_[i]];
        const long wanted = choose_bins(counts);
        // Values of wanted bins go to `sorted_`, bin after bin; all others to the place after them.
        sorted_.resize(wanted + 1);
        for (long i = 0; i < count; ++i) {
            sorted_[next_[bin_[i]]] = values[i];
            next_[bin_[i]] += step_[bin_[i]];
        }
        for (std::size_t j = 0; j < ranks_.size(); ++j) {
            const Place& place = places_[j];
            if (j == 0 || places_[j - 1].begin != place.begin)
                std::sort(sorted_.begin() + place.begin, sorted_.begin() + place.end);
            out[j] = sorted_[place.at];
        }
    }

private:
    struct Place {
        long begin, end, at;  // the bin of a rank, and the rank, in `sorted_`
    };

    // Fills places_, next_ and step_; returns the number of values in the bins of all ranks.
    long choose_bins(const int* counts) {
        std::size_t j = 0;
        long before = 0, size = 0;
        for (int b = 0; b < bins; before += counts[b++]) {
            const std::size_t first = j;
            for (; j < ranks_.size() && ranks_[j] < before + counts[b]; ++j)
                places_[j] = {size, size + counts[b], size + ranks_[j] - before};
            step_[b] = j > first;
            next_[b] = size;
            if (step_[b]) size += counts[b];
        }
        for (int b = 0; b < bins; ++b)
            if (!step_[b]) next_[b] = size;
        return size;
    }

    const std::vector<long>& ranks_;
    std::vector<Place> places_;
    std::vector<int> bin_;
    std::vector<T> sorted_;
    long next_[bins];
    int step_[bins];
};

// values (count, columns) -> out (ranks, columns).
template <class T>
void order_statistics(std::uintptr_t values, long count, long columns, const std::vector<long>& ranks, std::uintptr_t out,
                      int threads) {
    nb::gil_scoped_release release;
    const T* const table = reinterpret_cast<const T*>(values);
    T* const result = reinterpret_cast<T*>(out);
    const long tasks = (columns + columns_together - 1) / columns_together;
    parallel_for(useful_threads(threads, double(count) * double(columns)), tasks, [&](long task) {
        OrderStatistics<T> find(ranks, count);
        const long first = task * columns_together, some = std::min(columns_together, columns - first);
        std::vector<T> column(count * some), found(ranks.size());
        T low[columns_together], high[columns_together];
        std::copy_n(table + first, some, low);
        std::copy_n(table + first, some, high);
        for (long i = 0; i < count; ++i) {
            const T* row = table + i * columns + first;
            for (long c = 0; c < some; ++c) {
                column[c * count + i] = row[c];
                low[c] = row[c] < low[c] ? row[c] : low[c];
                high[c] = row[c] > high[c] ? row[c] : high[c];
            }
        }
        for (long c = 0; c < some; ++c) {
            find(column.data() + c * count, low[c], high[c], found.data());
            for (std::size_t j = 0; j < ranks.size(); ++j) result[long(j) * columns + first + c] = found[j];
        }
    });
}

}  // namespace

void bind_quantiles(nb::module_& module) {
    module.def("order_statistics_float", &order_statistics<float>);
    module.def("order_statistics_double", &order_statistics<double>);
}

}  // namespace siggpde

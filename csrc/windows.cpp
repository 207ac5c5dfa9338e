// Pooled window signatures as Python sees them: a view, compiled once, and batches of series that it looks at; and the
// thresholds for their words.
//
// Buffers are passed as addresses of contiguous CPU memory; the caller has checked shapes and types.
#include "windows.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "arguments.hpp"
#include "isa.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

template <class T>
const WindowLoops<T>& loops();

template <>
const WindowLoops<float>& loops<float>() {
    SIGGPDE_PICK(window_float)
}

template <>
const WindowLoops<double>& loops<double>() {
    SIGGPDE_PICK(window_double)
}

// The series (n, length, channels) and how long each is.
template <class T>
struct Rows {
    const T* x;
    const long long* lengths;  // or null: all of them have `length`
    long n, length;
    int channels;

    long count(long i) const { return lengths ? long(lengths[i]) : length; }
    const T* row(long i) const { return x + i * length * channels; }
};

class Windows {
public:
    using Ints = std::vector<int>;

    Windows(int lift, int points, int dilation, int smoothing, int max_windows, bool base_point, int depth, int channels,
            Ints used, const std::vector<Ints>& groups)
        : used_(std::move(used)), group_start_{0}, word_start_{0} {
        int columns = 0;
        for (const Ints& group : groups) {
            group_channels_.insert(group_channels_.end(), group.begin(), group.end());
            group_start_.push_back(int(group_channels_.size()));
            columns = add_columns(1 + int(group.size()), depth, columns);
            word_start_.push_back(int(column_.size()));
        }
        view_ = {Lift(lift), points, dilation, smoothing, max_windows, base_point, depth, channels,
                 int(used_.size()), used_.data(), int(groups.size()), group_start_.data(), group_channels_.data(),
                 word_start_.data(), column_.data(), columns};
        work_ = double(column_.size()) * points * 2 + columns * 20.0;
    }
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    // The statistics of series i go to whole + i * whole_row and thirds + i * third_row.
    template <class T>
    int pool(std::uintptr_t x, std::uintptr_t lengths, long n, long length, std::uintptr_t lift_factor,
             std::uintptr_t path_scale, std::uintptr_t thresholds, int n_thresholds, std::uintptr_t whole, long whole_row,
             std::uintptr_t thirds, long third_row, int threads) const {
        const WithoutGil unlocked;
        const Rows<T> rows{at<const T>(x), at<const long long>(lengths), n, length, view_.channels};
        const WindowNumbers<T> numbers{at<const T>(lift_factor), at<const T>(path_scale), at<const T>(thresholds),
                                       n_thresholds};
        // Series of about the same length go together.
        std::vector<long> order(n);
        std::iota(order.begin(), order.end(), 0L);
        if (lengths)
            std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return rows.count(a) > rows.count(b); });
        const double each = std::min<double>(double(length), view_.max_windows);
        return for_blocks<T>(rows, order.data(), n, n_thresholds, each, threads,
                             [&](const WindowLanes<T>& lanes, const long* items, void* memory) {
                                 T *to_whole[max_width<T>], *to_thirds[max_width<T>];
                                 for (int lane = 0; lane < lanes.count; ++lane) {
                                     to_whole[lane] = at<T>(whole) + items[lane] * whole_row;
                                     to_thirds[lane] = at<T>(thirds) + items[lane] * third_row;
                                 }
                                 return loops<T>().pool(view_, numbers, lanes, to_whole, to_thirds, memory);
                             });
    }

    // Windows chosen by number, of series chosen by number: their normalised words, or the lengths of their paths.
    template <class T, bool words>
    int chosen(std::uintptr_t x, std::uintptr_t lengths, long n, long length, std::uintptr_t lift_factor,
               std::uintptr_t path_scale, std::uintptr_t series, std::uintptr_t windows, long count, std::uintptr_t out,
               int threads) const {
        const WithoutGil unlocked;
        const Rows<T> rows{at<const T>(x), at<const long long>(lengths), n, length, view_.channels};
        const WindowNumbers<T> numbers{at<const T>(lift_factor), at<const T>(path_scale), nullptr, 0};
        // Sorted by series: those of series i are start[i] .. start[i + 1].
        const long long *const of = at<const long long>(series), *const window = at<const long long>(windows);
        std::vector<long> start(n + 1), windows_of(count), rows_of(count), items;
        for (long i = 0; i < count; ++i) ++start[of[i] + 1];
        for (long i = 0; i < n; ++i) {
            if (start[i + 1]) items.push_back(i);
            start[i + 1] += start[i];
        }
        std::vector<long> next(start.begin(), start.end() - 1);
        for (long i = 0; i < count; ++i) {
            const long to = next[of[i]]++;
            windows_of[to] = long(window[i]);
            rows_of[to] = i;
        }
        const double each = double(count) / double(std::max<std::size_t>(items.size(), 1));
        return for_blocks<T>(rows, items.data(), long(items.size()), 0, each, threads,
                             [&](const WindowLanes<T>& lanes, const long* block, void* memory) {
                                 ChosenWindows chosen;
                                 for (int lane = 0; lane < lanes.count; ++lane) {
                                     const long first = start[block[lane]];
                                     chosen.windows[lane] = windows_of.data() + first;
                                     chosen.rows[lane] = rows_of.data() + first;
                                     chosen.counts[lane] = start[block[lane] + 1] - first;
                                 }
                                 const auto run = words ? loops<T>().signatures : loops<T>().path_lengths;
                                 return run(view_, numbers, lanes, chosen, at<T>(out), memory);
                             });
    }

    int columns() const { return view_.columns; }

private:
    template <class T>
    static constexpr int max_width = 64 / int(sizeof(T));

    // Columns of the words up to `depth`, which are by length, then alphabetical, without words of time alone (the first
    // of each length); listed depth first. Returns the next free column.
    int add_columns(int letters, int depth, int column) {
        Ints start{0};  // of each length
        for (int k = 1, words = 1; k <= depth; ++k, column += words - 1) {
            words *= letters;
            start.push_back(column);
        }
        const auto walk = [&](const auto& self, int length, int number) -> void {
            if (length > 0) column_.push_back(number == 0 ? -1 : start[length] + number - 1);
            for (int c = 0; c < letters && length < depth; ++c) self(self, length + 1, number * letters + c);
        };
        walk(walk, 0, 0);
        return column;
    }

    // Runs work(lanes, items, memory) for each `width` of the items, which are numbers of series.
    template <class T, class Work>
    int for_blocks(const Rows<T>& rows, const long* items, long n, int n_thresholds, double windows, int threads,
                   const Work& work) const {
        const int width = loops<T>().width;
        const long blocks = (n + width - 1) / width;
        const std::size_t bytes =
            std::size_t(loops<T>().memory(view_, rows.length, n_thresholds)) * loops<T>().vector_bytes;
        const std::size_t share = (bytes + 127) / 64 * 64;
        threads = int(std::min<long>(useful_threads(threads, (work_ * windows + double(rows.length)) * double(blocks)), blocks));
        if (blocks == 0) return Failure::none;
        Scratch<char> memory(share * threads);
        std::atomic<long> next{0};
        std::atomic<int> failure{Failure::none};  // the first of the list of codes, whichever block is done first
        parallel_for(threads, threads, [&](long thread) {
            for (long block = next++; block < blocks; block = next++) {
                check_interrupt();
                WindowLanes<T> lanes;
                const long* mine = items + block * width;
                lanes.count = int(std::min<long>(width, n - block * width));
                for (int lane = 0; lane < width; ++lane) {
                    const long item = mine[lane < lanes.count ? lane : 0];
                    lanes.rows[lane] = rows.row(item);
                    lanes.lengths[lane] = rows.count(item);
                }
                const int found = work(lanes, mine, memory.get() + share * thread);
                int known = failure.load();
                while (found && (!known || found < known) && !failure.compare_exchange_weak(known, found)) {}
            }
        });
        return failure;
    }

    Ints used_, group_start_, group_channels_, word_start_, column_;
    WindowView view_;
    double work_ = 0;
};

// Thresholds near the quantiles of the columns of a table, midway between two values. The values of a column are
// distributed to bins, and only the bins that are looked at are sorted.
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
    const WithoutGil unlocked;
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

void bind_windows(nb::module_& module) {
    using Ints = std::vector<int>;
    nb::class_<Windows>(module, "Windows", "A view of series by windows, compiled for pooled signatures.")
        .def(nb::init<int, int, int, int, int, bool, int, int, Ints, const std::vector<Ints>&>())
        .def_prop_ro("columns", &Windows::columns)
        .def("pool_float", &Windows::pool<float>)
        .def("pool_double", &Windows::pool<double>)
        .def("signatures_float", &Windows::chosen<float, true>)
        .def("signatures_double", &Windows::chosen<double, true>)
        .def("path_lengths_float", &Windows::chosen<float, false>)
        .def("path_lengths_double", &Windows::chosen<double, false>);
    module.def("separating_thresholds", &separating_thresholds);
}

}  // namespace siggpde

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

    // Series of about the same length go together.
    std::vector<long> by_length() const {
        std::vector<long> order(n);
        std::iota(order.begin(), order.end(), 0L);
        if (lengths) std::stable_sort(order.begin(), order.end(), [&](long a, long b) { return count(a) > count(b); });
        return order;
    }

    WindowLanes<T> lanes(const long* items, long some) const {
        WindowLanes<T> out;
        out.count = int(some);
        for (int lane = 0; lane < loops<T>().width; ++lane) {
            const long item = items[lane < some ? lane : 0];
            out.rows[lane] = row(item);
            out.lengths[lane] = count(item);
        }
        return out;
    }
};

template <class T>
constexpr int max_width = 64 / int(sizeof(T));

// The first of the list of codes, whichever block is done first.
void keep_first(std::atomic<int>& failure, int found) {
    int known = failure.load();
    while (found && (!known || found < known) && !failure.compare_exchange_weak(known, found)) {}
}

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
        const std::vector<long> order = rows.by_length();
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
    const WindowView& view() const { return view_; }
    double work(double windows) const { return work_ * windows; }

private:
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
        threads = useful_threads(threads, (work_ * windows + double(rows.length)) * double(blocks));
        if (blocks == 0) return Failure::none;
        std::atomic<int> failure{Failure::none};
        siggpde::for_blocks(blocks, 1, threads, bytes, [&](long block, char* memory) {
            const long* mine = items + block * width;
            const WindowLanes<T> lanes = rows.lanes(mine, std::min<long>(width, n - block * width));
            keep_first(failure, work(lanes, mine, memory));
        });
        return failure;
    }

    Ints used_, group_start_, group_channels_, word_start_, column_;
    WindowView view_;
    double work_ = 0;
};

// The statistics of several views, standardised, one beside the other.
class WindowFeatures {
public:
    // Numbers of a view as for Windows::pool, and of the statistics over the whole series and over its thirds how many
    // are features, at which places, and their mean and spread. Everything is copied.
    void add(const Windows& windows, std::uintptr_t lift_factor, std::uintptr_t path_scale, std::uintptr_t thresholds,
             int n_thresholds, const std::vector<std::vector<std::uint64_t>>& scales, float steps, float largest) {
        const WindowView& view = windows.view();
        const int width = loops<double>().width;
        const double* const levels = at<const double>(thresholds);
        Item item{windows, copy(at<const double>(lift_factor), view.n_used), copy(at<const double>(path_scale), view.n_groups),
                  copy(levels, long(view.columns) * n_thresholds), {}, n_thresholds, steps, largest, {}};
        item.by_vector.resize((view.columns + width - 1) / width * std::size_t(width) * n_thresholds);
        for (int m = 0; m < view.columns; ++m)
            for (int j = 0; j < n_thresholds; ++j)
                item.by_vector[(m / width * n_thresholds + j) * width + m % width] = levels[m * n_thresholds + j];
        for (const auto& scale : scales) {
            const long count = long(scale[0]);
            const long long* const kept = at<const long long>(scale[1]);
            item.scales.push_back({{kept, kept + count}, copy(at<const float>(scale[2]), count),
                                   copy(at<const float>(scale[3]), count), columns_});
            columns_ += count;
        }
        items_.push_back(std::move(item));
    }

    // The features of views begin .. end of series i go to out + i * columns(begin, end).
    int run(long begin, long end, std::uintptr_t x, std::uintptr_t lengths, long n, long length, std::uintptr_t out,
            int threads) const {
        const WithoutGil unlocked;
        if (begin == end || n == 0) return Failure::none;
        const long columns_before = columns(0, begin), row = columns(begin, end), views = end - begin;
        const Rows<double> rows{at<const double>(x), at<const long long>(lengths), n, length,
                                items_[0].windows.view().channels};
        const std::vector<long> order = rows.by_length();
        const int width = loops<double>().width;
        // A few series are faster alone, by a fourth of the time of a vector of them.
        const long together = n % width > width / 2 ? n : n - n % width;
        const long blocks = (together + width - 1) / width, groups = blocks + n - together;
        double work = 0;
        long vectors = 0, results = 0;
        for (long i = begin; i < end; ++i) {
            const Item& item = items_[i];
            const WindowView& view = item.windows.view();
            work += item.windows.work(std::min<double>(double(length), view.max_windows));
            vectors = std::max(vectors, loops<double>().memory(view, length, item.n_thresholds));
            results = std::max(results, item.statistics());
        }
        const std::size_t bytes = std::size_t(vectors) * loops<double>().vector_bytes + sizeof(double) * results * width;
        const long tasks = groups * views;
        threads = int(std::min<long>(useful_threads(threads, work * double(groups)), tasks));
        std::atomic<int> failure{Failure::none};
        for_blocks(tasks, 1, threads, bytes, [&](long task, char* memory) {
            const Item& item = items_[begin + task % views];
            const long group = task / views, first = group < blocks ? group * width : together + group - blocks;
            const WindowLanes<double> lanes = rows.lanes(order.data() + first, group < blocks ? std::min<long>(width, together - first) : 1);
            double *whole[max_width<double>], *thirds[max_width<double>];
            for (int lane = 0; lane < lanes.count; ++lane) {
                whole[lane] = reinterpret_cast<double*>(memory + std::size_t(vectors) * loops<double>().vector_bytes) +
                              lane * results;
                thirds[lane] = whole[lane] + whole_statistics(item.n_thresholds) * long(item.windows.columns());
            }
            const bool alone = group >= blocks;
            const auto& thresholds = alone ? item.by_vector : item.by_column;
            const WindowNumbers<double> numbers{item.lift_factor.data(), item.path_scale.data(), thresholds.data(),
                                                item.n_thresholds};
            const auto pool = alone ? loops<double>().pool_alone : loops<double>().pool;
            if (const int found = pool(item.windows.view(), numbers, lanes, whole, thirds, memory))
                return keep_first(failure, found);
            for (int lane = 0; lane < lanes.count; ++lane)
                for (int end = 0; end < 2; ++end) {
                    const Scale& scale = item.scales[end];
                    const long count = long(scale.mean.size());
                    const long all = (end ? third_statistics(item.n_thresholds) : whole_statistics(item.n_thresholds)) *
                                     long(item.windows.columns());
                    loops<double>().standardise((end ? thirds : whole)[lane],
                                                {count == all ? nullptr : scale.kept.data(), scale.mean.data(),
                                                 scale.spread.data(), item.steps, item.largest, count},
                                                at<short>(out) + order[first + lane] * row + scale.start - columns_before);
                }
        });
        return failure;
    }

    long columns(long begin, long end) const {
        long total = 0;
        for (long i = begin; i < end; ++i)
            for (const Scale& scale : items_[i].scales) total += long(scale.mean.size());
        return total;
    }

private:
    struct Scale {
        std::vector<int> kept;
        std::vector<float> mean, spread;
        long start;  // in a row of features
    };
    struct Item {
        const Windows& windows;  // kept alive by Python
        std::vector<double> lift_factor, path_scale, by_column, by_vector;
        int n_thresholds;
        float steps, largest;
        std::vector<Scale> scales;

        long statistics() const {
            return long(whole_statistics(n_thresholds) + third_statistics(n_thresholds)) * windows.columns();
        }
    };

    template <class T>
    static std::vector<T> copy(const T* from, long count) {
        return {from, from + count};
    }

    std::vector<Item> items_;
    long columns_ = 0;
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
    nb::class_<WindowFeatures>(module, "WindowFeatures", "Pooled signatures of several views, standardised.")
        .def(nb::init<>())
        .def("add", &WindowFeatures::add, nb::keep_alive<1, 2>())
        .def("run", &WindowFeatures::run)
        .def("columns", &WindowFeatures::columns);
    module.def("separating_thresholds", &separating_thresholds);
}

}  // namespace siggpde

// Statistics over the windows of each lane's series, whole and by thirds, without the windows ever being stored.
//
// Windows come in blocks, third after third. A lane with fewer windows in a third than another repeats its first
// window: deviations from the first window are summed up, so that this adds zeros to the sums and changes neither the
// largest nor the smallest value; only the counts above thresholds are put right at the end.
//
// One series alone has its windows in the lanes instead, and the columns of their words when these are pooled: the numbers
// and the order in which they are added are the same.
#include "window_signature.hpp"

namespace siggpde::SIGGPDE_ISA {

constexpr int windows_together = 8;  // a block: statistics are loaded and stored once for so many windows

// With `alone` a column is a vector of columns, and a lane one of these.
template <class T, bool alone>
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

    static int columns_of(const WindowView& view) { return alone ? (view.columns + W - 1) / W : view.columns; }
    static long memory(const WindowView& view, int n_thresholds) {
        return long(columns_of(view)) * (windows_together + kept + 3 + 3 * n_thresholds);
    }

    WindowPool(const WindowView& view, const WindowNumbers<T>& numbers, V* memory)
        : columns(columns_of(view)), n_thresholds(numbers.n_thresholds), thresholds(numbers.thresholds), block(memory) {
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
                           (first > threshold(m, j) ? surplus[t] : V{});
                total += above[t];
            }
            out[(4 + j) * out_step] = total * share;
            if (j % 2) continue;
            for (int t = 0; t < 3; ++t)
                of_thirds[(3 * (1 + j / 2) + t) * out_step] = in_third[t] > V{} ? above[t] / in_third[t] : total * share;
        }
    }

private:
    V threshold(int m, int j) const {
        if constexpr (alone) return load<T>(thresholds + (long(m) * n_thresholds + j) * W);
        else return broadcast<T>(thresholds[long(m) * n_thresholds + j]);
    }

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
                const V level = threshold(m, j);
                Count above = count[j];
#pragma GCC unroll 8
                for (int b = 0; b < n; ++b) above = f[b] > level ? above + 1 : above;
                count[j] = above;
            }
        }
    }
};

// Windows of the series in the lanes, from their numbers to pooled signatures; compiled once for each instruction set.
namespace {

inline long larger(long a, long b) { return a > b ? a : b; }

// Vectors for the signature of a window: its words, and an increment divided by 1, 2, ..
long words_memory(const WindowView& view) {
    long most = 0;
    for (int group = 0; group < view.n_groups; ++group) {
        const int letters = view.letters(group);
        most = larger(most, words_below(letters, view.depth) + long(letters) * view.depth);
    }
    return most;
}

// Where in the memory, in vectors: the series first, then sums of smoothing (and afterwards a window), words, and what is
// pooled.
template <class T>
struct Places {
    long window, words, pool;

    Places(const WindowView& view, long longest) {
        const long size = WindowSeries<T>::positions(view, longest) * view.n_used;
        window = size;
        words = window + larger(size, long(view.points) * view.n_used);
        pool = words + words_memory(view);
    }
};

template <class T>
long memory(const WindowView& view, long longest, int n_thresholds) {
    const long statistics = whole_statistics(n_thresholds) + third_statistics(n_thresholds);
    const long together = WindowPool<T, false>::memory(view, n_thresholds) + statistics * width<T>;
    const long alone = WindowPool<T, true>::memory(view, n_thresholds) + statistics + view.columns + width<T>;
    return Places<T>(view, longest).pool + larger(together, alone);
}

// Working memory by name.
template <class T>
struct Parts {
    vec<T>*series, *window, *words, *pool;

    Parts(const WindowView& view, const WindowLanes<T>& lanes, void* memory) : series(static_cast<vec<T>*>(memory)) {
        long longest = 0;
        for (int lane = 0; lane < width<T>; ++lane) longest = larger(longest, lanes.lengths[lane]);
        const Places<T> places(view, longest);
        window = series + places.window;
        words = series + places.words;
        pool = series + places.pool;
    }
};

// The points of window index[lane] of every lane: in place where all lanes have the same, else copied to `copy`.
template <class T>
LaneWindow<T> window_at(const WindowView& view, const vec<T>* series, const LaneWindows<T>& windows, const long* index,
                        vec<T>* copy) {
    constexpr int W = width<T>;
    const long d = view.n_used;
    bool same = windows.alike;
    for (int lane = 1; lane < W; ++lane) same = same && index[lane] == index[0];
    if (same) return {series + index[0] * windows.stride[0] * d, view.dilation * d};
    const T* from = reinterpret_cast<const T*>(series);
    T* to = reinterpret_cast<T*>(copy);
    for (int lane = 0; lane < W; ++lane) {
        const long start = index[lane] * windows.stride[lane];
        for (int j = 0; j < view.points; ++j)
            for (long c = 0; c < d; ++c)
                to[(j * d + c) * W + lane] = from[((start + long(j) * view.dilation) * d + c) * W + lane];
    }
    return {copy, d};
}

template <class T>
bool prepare(WindowSeries<T>& series, const WindowLanes<T>& lanes, const WindowNumbers<T>& numbers, vec<T>* sums) {
    if (!series.load_rows(lanes)) return false;
    series.lift(numbers.lift_factor);
    series.smooth(sums);
    return true;
}

// Columns from lanes to rows: at most W of `count` columns, lane by lane to rows[lane].
template <class T>
void store_rows(const vec<T>* columns, int count, T* const* rows, int lanes) {
    constexpr int W = width<T>;
    vec<T> block[W];
    for (int j = 0; j < W; ++j) block[j] = j < count ? columns[j] : vec<T>{};
    transpose<T>(block);
    for (int lane = 0; lane < lanes; ++lane) {
        if (count >= W)
            store<T>(rows[lane], block[lane]);
        else
            for (int j = 0; j < count; ++j) rows[lane][j] = block[lane][j];
    }
}

// The words of windows begin .. begin + count of a series that is alone, a vector's width of them at a time, turned from
// columns to windows. Returns whether all norms are in range, unless `large`.
template <class T>
bool words_alone(const WindowView& view, const Parts<T>& parts, const LaneWindows<T>& windows, const T* path_scale,
                 long begin, int count, bool large, vec<T>* block, vec<T>* words) {
    constexpr int W = width<T>;
    vec<T> checks{};
    for (int b = 0; b < count; b += W) {
        long index[W];
        for (int lane = 0; lane < W; ++lane) index[lane] = begin + (b + lane < count ? b + lane : b);
        const LaneWindow<T> window = window_at<T>(view, parts.series, windows, index, parts.window);
        checks += window_features<T>(view, path_scale, window, large, words, 1, parts.words);
        for (int m = 0; m < view.columns; m += W) {
            vec<T> turned[W];
            for (int j = 0; j < W; ++j) turned[j] = m + j < view.columns ? words[m + j] : vec<T>{};
            transpose<T>(turned);
            for (int lane = 0; lane < W && b + lane < count; ++lane) block[m / W * windows_together + b + lane] = turned[lane];
        }
    }
    return sum_of_lanes<T>(checks) == 0;
}

template <class T, bool alone>
Failure::Code pool(const WindowView& view, const WindowNumbers<T>& numbers, const WindowLanes<T>& lanes, T* const* whole,
          T* const* thirds, void* memory) {
    using V = vec<T>;
    constexpr int W = width<T>;
    const Parts<T> parts(view, lanes, memory);
    WindowSeries<T> series(view, lanes, parts.series);
    if (!prepare(series, lanes, numbers, parts.window)) return Failure::not_finite;
    const LaneWindows<T> windows = series.windows();
    WindowPool<T, alone> statistics(view, numbers, parts.pool);
    V* const out = parts.pool + WindowPool<T, alone>::memory(view, numbers.n_thresholds);
    V count;
    for (int lane = 0; lane < W; ++lane) count[lane] = T(windows.count[lane]);
    for (int third = 0; third < 3; ++third) {
        long begin[W], size[W], most = 0;
        for (int lane = 0; lane < W; ++lane) {  // window k of c is in third 3 k / c, rounded down
            begin[lane] = (third * windows.count[lane] + 2) / 3;
            size[lane] = ((third + 1) * windows.count[lane] + 2) / 3 - begin[lane];
            most = larger(most, size[lane]);
        }
        for (int lane = 0; lane < W; ++lane) {
            statistics.in_third[third][lane] = T(size[lane]);
            statistics.surplus[third][lane] = T(most - size[lane]);
        }
        for (long i = 0; i < most; i += windows_together) {
            const int together = int(most - i < windows_together ? most - i : windows_together);
            const auto words_of_block = [&](bool large) {
                if constexpr (alone)
                    return words_alone<T>(view, parts, windows, numbers.path_scale, begin[0] + i, together, large,
                                          statistics.block, out);
                V checks{};
                for (int b = 0; b < together; ++b) {
                    long index[W];
                    for (int lane = 0; lane < W; ++lane) index[lane] = i + b < size[lane] ? begin[lane] + i + b : 0;
                    const LaneWindow<T> window = window_at<T>(view, parts.series, windows, index, parts.window);
                    checks += window_features<T>(view, numbers.path_scale, window, large, statistics.block + b,
                                                 windows_together, parts.words);
                }
                return sum_of_lanes<T>(checks) == 0;
            };
            if (!words_of_block(false)) words_of_block(true);
            if (third == 0 && i == 0) statistics.begin();
            statistics.add(third, together);
        }
        statistics.end_third(third);
    }
    const int of_whole = whole_statistics(numbers.n_thresholds), of_thirds = third_statistics(numbers.n_thresholds);
    const long columns = view.columns;
    // Where statistic k of a lane's series goes.
    const auto row = [&](int lane, int k) {
        return k < of_whole ? whole[lane] + k * columns : thirds[lane] + (k - of_whole) * columns;
    };
    V check{};  // becomes NaN where a mean is
    for (long m = 0; m < columns; m += W) {
        const int some = int(columns - m < W ? columns - m : W);
        if constexpr (alone) {
            statistics.finish(int(m / W), count, out, 1);
            check += out[0] * T(0);
            for (int k = 0; k < of_whole + of_thirds; ++k) __builtin_memcpy(row(0, k) + m, out + k, some * sizeof(T));
            continue;
        }
        // The statistics of W columns at a time, turned from lanes to rows.
        for (int j = 0; j < some; ++j) {
            statistics.finish(int(m) + j, count, out + j, W);
            check += out[j] * T(0);
        }
        for (int k = 0; k < of_whole + of_thirds; ++k) {
            T* to[W];
            for (int lane = 0; lane < lanes.count; ++lane) to[lane] = row(lane, k) + m;
            store_rows<T>(out + k * W, some, to, lanes.count);
        }
    }
    return sum_of_lanes<T>(check) == 0 ? Failure::none : Failure::overflow;
}

// Calls work(window, rows of the result) for all chosen windows, one in each lane at a time; lanes that have no more
// repeat their last. What it returns is zero, or NaN in lanes where the result is.
template <class T, class Work>
Failure::Code for_chosen(const WindowView& view, const WindowNumbers<T>& numbers, const WindowLanes<T>& lanes,
                const ChosenWindows& chosen, const Parts<T>& parts, const Work& work) {
    constexpr int W = width<T>;
    WindowSeries<T> series(view, lanes, parts.series);
    if (!prepare(series, lanes, numbers, parts.window)) return Failure::not_finite;
    const LaneWindows<T> windows = series.windows();
    vec<T> check{};
    long most = 0;
    for (int lane = 0; lane < lanes.count; ++lane) most = larger(most, chosen.counts[lane]);
    for (long i = 0; i < most; ++i) {
        long index[W], rows[W];
        for (int lane = 0; lane < W; ++lane) {
            const int from = lane < lanes.count ? lane : 0;
            const long at = i < chosen.counts[from] ? i : chosen.counts[from] - 1;
            index[lane] = chosen.windows[from][at];
            rows[lane] = chosen.rows[from][at];
        }
        check += work(window_at<T>(view, parts.series, windows, index, parts.window), rows);
    }
    return sum_of_lanes<T>(check) == 0 ? Failure::none : Failure::overflow;
}

template <class T>
Failure::Code signatures(const WindowView& view, const WindowNumbers<T>& numbers, const WindowLanes<T>& lanes,
                const ChosenWindows& chosen, T* out, void* memory) {
    const Parts<T> parts(view, lanes, memory);
    return for_chosen<T>(view, numbers, lanes, chosen, parts, [&](LaneWindow<T> window, const long* rows) {
        window_features<T>(view, numbers.path_scale, window, true, parts.pool, 1, parts.words);
        T* to[width<T>];
        for (int lane = 0; lane < lanes.count; ++lane) to[lane] = out + rows[lane] * view.columns;
        for (int m = 0; m < view.columns; m += width<T>) {
            store_rows<T>(parts.pool + m, view.columns - m, to, lanes.count);
            for (int lane = 0; lane < lanes.count; ++lane) to[lane] += width<T>;
        }
        vec<T> check{};
        for (int m = 0; m < view.columns; ++m) check += parts.pool[m] * T(0);
        return check;
    });
}

template <class T>
Failure::Code path_lengths(const WindowView& view, const WindowNumbers<T>& numbers, const WindowLanes<T>& lanes,
                  const ChosenWindows& chosen, T* out, void* memory) {
    using V = vec<T>;
    const Parts<T> parts(view, lanes, memory);
    return for_chosen<T>(view, numbers, lanes, chosen, parts, [&](LaneWindow<T> window, const long* rows) {
        V check{};
        for (int group = 0; group < view.n_groups; ++group) {
            const WindowIncrements<T> increments = increments_of(view, group, T(1), window);
            const int letters = view.letters(group);
            V length{};
            for (int j = 0; j < view.points - 1 + view.base_point; ++j) {
                increments.table(j, letters, 1, parts.words);
                V square{};
                for (int c = 0; c < letters; ++c) square += parts.words[c] * parts.words[c];
                length += root_of_lanes<T>(square);
            }
            for (int lane = 0; lane < lanes.count; ++lane) out[rows[lane] * view.n_groups + group] = length[lane];
            check += length * T(0);
        }
        return check;
    });
}

// As torch does it in single precision, operation by operation.
template <class T>
void standardise(const T* values, const FeatureScale& scale, short* out) {
    constexpr float rounding = 0x1.8p23f;  // added and taken off it leaves whole numbers
    for (long j = 0; j < scale.count; ++j) {
        const float value = float(values[scale.kept ? scale.kept[j] : j]);
        float z = (value - scale.mean[j]) / scale.spread[j] * scale.steps;
        z = z < -scale.largest ? -scale.largest : z;
        z = z > scale.largest ? scale.largest : z;
        out[j] = short((z + rounding) - rounding);
    }
}

template <class T>
constexpr WindowLoops<T> loops = {width<T>,       SIGGPDE_VECTOR_BYTES, memory<T>,       pool<T, false>,
                                  pool<T, true>, standardise<T>,       signatures<T>, path_lengths<T>};

}  // namespace

extern const WindowLoops<float> window_float;
extern const WindowLoops<double> window_double;
const WindowLoops<float> window_float = loops<float>;
const WindowLoops<double> window_double = loops<double>;

}  // namespace siggpde::SIGGPDE_ISA

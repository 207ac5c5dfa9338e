// Windows of a lifted series and their pooled signatures: what the loops compiled for each instruction set take and
// offer. The mathematics is in siggpde/numerics/windows.py.
#pragma once

#include "arguments.hpp"
#include "isa.hpp"

namespace siggpde {

// Files for all instruction sets call these: there must be no copy that the linker could take from one of them.
#define SIGGPDE_EVERYWHERE inline __attribute__((always_inline))

// The codes of siggpde/numerics/windows.py, in that order.
enum class Lift : int { values = 0, differences = 1, cumulated = 2, standardised = 3 };

// One view of a series. Channels in `group_channels` count within `used`, the channels of the series that are looked at.
struct WindowView {
    Lift lift;
    int points;       // of a window
    int dilation;     // distance of its points
    int smoothing;    // points averaged before
    int max_windows;  // of a series
    bool base_point;  // windows start at the origin
    int depth;
    int channels;  // of the series
    int n_used;
    const int* used;
    int n_groups;
    const int* group_start;  // [n_groups + 1], into group_channels
    const int* group_channels;
    const int* word_start;  // [n_groups + 1], into column
    const int* column;      // of each word of each group, depth first without the empty one; -1 for time alone
    int columns;

    static constexpr int max_depth = 8;
    SIGGPDE_EVERYWHERE int letters(int group) const { return 1 + group_start[group + 1] - group_start[group]; }
    SIGGPDE_EVERYWHERE long span() const { return long(points - 1) * dilation + 1; }
};

// Numbers that are fitted: lifted channels are multiplied by lift_factor [n_used], paths (with time in [0, 1]) of a
// group by path_scale [n_groups]; thresholds [columns][n_thresholds], and of a series that is alone by vectors of columns,
// [columns / width][n_thresholds][width].
template <class T>
struct WindowNumbers {
    const T* lift_factor;
    const T* path_scale;
    const T* thresholds;
    int n_thresholds;
};

// At most a vector's width of series (n of them), one in each lane; the others repeat the first.
template <class T>
struct WindowLanes {
    const T* rows[64 / sizeof(T)];
    long lengths[64 / sizeof(T)];
    int count;
};

// Chosen windows of the series in the lanes: numbers of windows, and the rows of the result that they go to.
struct ChosenWindows {
    const long* windows[16];
    const long* rows[16];
    long counts[16];  // at least 1
};

// Statistics of a series: mean, deviation, largest, smallest and the share above each threshold, over all windows; and
// over each third of them the mean and the share above every second threshold.
SIGGPDE_EVERYWHERE int whole_statistics(int n_thresholds) { return 4 + n_thresholds; }
SIGGPDE_EVERYWHERE int third_statistics(int n_thresholds) { return 3 * (1 + (n_thresholds + 1) / 2); }

// Of the statistics of a series the `count` that are features, all or those `kept`: at mean 0 and spread 1, in whole `steps`
// of these, cut off at the `largest`.
struct FeatureScale {
    const int* kept;
    const float *mean, *spread;
    float steps, largest;
    long count;
};

// `memory` has as many vectors as the function of that name says for series of at most `longest` points, aligned to 64
// bytes. A failure other than `none`: a number of a series is not finite, and nothing is written, or the signature of a
// window is out of range, and results are NaN.
template <class T>
struct WindowLoops {
    int width;
    int vector_bytes;
    long (*memory)(const WindowView&, long longest, int n_thresholds);
    // whole[lane]: [whole_statistics][columns], thirds[lane]: [third_statistics][columns]
    Failure::Code (*pool)(const WindowView&, const WindowNumbers<T>&, const WindowLanes<T>&, T* const* whole, T* const* thirds,
                 void* memory);
    // The same of one series alone.
    decltype(pool) pool_alone;
    void (*standardise)(const T* values, const FeatureScale&, short* out);
    // out: normalised words [row][columns] of chosen windows
    Failure::Code (*signatures)(const WindowView&, const WindowNumbers<T>&, const WindowLanes<T>&, const ChosenWindows&, T* out,
                       void* memory);
    // out: lengths [row][n_groups] of their paths before they are scaled
    Failure::Code (*path_lengths)(const WindowView&, const WindowNumbers<T>&, const WindowLanes<T>&, const ChosenWindows&, T* out,
                         void* memory);
};

SIGGPDE_DECLARE(WindowLoops<float>, window_float)
SIGGPDE_DECLARE(WindowLoops<double>, window_double)

}  // namespace siggpde

// Plans for all series of a batch, measured a vector's width at a time.
#pragma once

#include <algorithm>

#include "parallel.hpp"
#include "scratch.hpp"
#include "series_batch.hpp"

namespace siggpde {

// Plans of the series of one vector.
template <class T>
Failure plan_lanes(const SeriesBatch<T>& batch, const PlanRequest& request, const double* tighten, long first,
                   T* increments, std::vector<Plan>& plans) {
    const GoursatLoops& loops = goursat_loops();
    const int width = loops.width<T>();
    long members[max_lanes];
    const int count = int(std::min<long>(width, batch.count - first));
    for (int lane = 0; lane < count; ++lane) members[lane] = first + lane;
    const LaneSeries<T> lanes = batch.lanes(members, count, width);
    LaneSizes<T> sizes;
    const bool finite = batch.kernel.lifts() ? loops.of<T>().load_points(lanes, batch.kernel, increments, &sizes)
                                             : loops.of<T>().load_increments(lanes, increments, &sizes);
    if (!finite)
        for (int lane = 0; lane < count; ++lane)
            if (const Failure failure = batch.find_not_finite(first + lane)) return failure;
    for (int lane = 0; lane < count; ++lane) {
        const long series = first + lane;
        PlanRequest own = request;
        if (tighten && tighten[series] > 1) own.tol /= tighten[series];
        const PathSize size{lanes.points[lane] - 1, double(sizes.largest[lane]), double(sizes.sum[lane]),
                            double(sizes.fourth[lane]), double(sizes.eighth[lane])};
        const Verdict verdict = make_plan(size, own, plans[series]);
        if (verdict == Verdict::too_large) return {Failure::overflow, series};
        if (verdict == Verdict::cut) make_cuts(size, batch.squared_segments(series), own, plans[series]);
    }
    return {};
}

// `tighten` [series], or null: the tolerance of a series is divided by it where it exceeds 1. If several series
// fail, the first one is returned.
template <class T>
Failure plan_all(const SeriesBatch<T>& batch, const PlanRequest& request, const double* tighten, int threads,
                 std::vector<Plan>& plans) {
    constexpr long vectors_per_task = 64;
    const int width = goursat_loops().width<T>();
    const long per_task = vectors_per_task * width, tasks = (batch.count + per_task - 1) / per_task;
    const double size = double(batch.points) * batch.channels;
    std::vector<Failure> failures(tasks);
    parallel_for(useful_threads(threads, size * double(batch.count)), tasks, [&](long task) {
        Scratch<T> increments(std::size_t(size) * width);
        const long end = std::min(batch.count, (task + 1) * per_task);
        for (long first = task * per_task; first < end && !failures[task]; first += width)
            failures[task] = plan_lanes(batch, request, tighten, first, increments.get(), plans);
    });
    for (const Failure& failure : failures)
        if (failure) return failure;
    return {};
}

}  // namespace siggpde

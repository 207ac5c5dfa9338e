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
    if (!loops.of<T>().load_increments(lanes, increments, &sizes))
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

// The increments of a block's series in the lanes, split as planned: `steps` of them.
template <class T>
void pack_block(const SeriesBatch<T>& batch, const std::vector<Plan>& plans, const long* members, int count, long steps,
                T* out) {
    const GoursatLoops& loops = goursat_loops();
    const int width = loops.width<T>();
    loops.of<T>().load_increments(batch.lanes(members, count, width), out, nullptr);
    long taken = 0;
    for (int lane = 0; lane < count; ++lane) taken = std::max(taken, batch.length(members[lane]) - 1);
    std::fill(out + taken * batch.channels * width, out + steps * batch.channels * width, T(0));
    for (int lane = 0; lane < count; ++lane) {
        const Plan& plan = plans[members[lane]];
        if (!plan.splits()) continue;
        const long pieces = batch.pack(members[lane], plan, out + lane, width);
        for (long i = pieces * batch.channels; i < steps * batch.channels; ++i) out[i * width + lane] = 0;
    }
}

}  // namespace siggpde

// k(X, X) of a batch, with or without its gradient.
#include <atomic>
#include <cmath>
#include <limits>

#include "parallel.hpp"
#include "plan.hpp"
#include "series_batch.hpp"

namespace siggpde {

namespace {

template <class T>
class DiagonalRun {
public:
    DiagonalRun(const SeriesBatch<T>& batch, const DiagonalRequest<T>& request)
        : batch_(batch), request_(request), loops_(goursat_loops()), plans_(batch.count),
          inflation_(batch.count),
          allowed_(batch.count, 1) {}

    Failure run() {
        if (request_.plan.refine == 0 && !batch_.lengths && !batch_.kernel.lifts()) {
            if (const Failure failure = solve_as_they_come()) return failure;
        } else {
            if (const Failure failure = plan_all(batch_, request_.plan, nullptr, request_.threads, plans_))
                return failure;
            solve(all_members(batch_.count));
        }
        // An inaccurate pass underestimates the fall, so passes are repeated until the plans allow for all of it.
        for (int pass = 0; pass < max_passes && request_.plan.refine < 0 && solve_inflated_again(); ++pass) continue;
        if (out_of_memory_) return {Failure::memory};
        if (request_.inflation) std::copy(inflation_.begin(), inflation_.end(), request_.inflation);
        for (long i = 0; i < batch_.count; ++i)
            if (!std::isfinite(request_.value[i])) return {Failure::overflow, i};
        const double rounding = roundings * ordinary_fall * std::numeric_limits<T>::epsilon();
        const double worst_rounding = sizeof(T) == 8 ? inaccurate_above_f64 : inaccurate_above_f32;
        Failure worst;
        for (long i = 0; i < batch_.count; ++i) {
            Failure failure;
            if (const double error = rounding * inflation_[i]; error > std::max(worst_rounding, request_.plan.tol))
                failure = {error > 1 ? Failure::lost : Failure::inaccurate, i};
            if constexpr (sizeof(T) == 4)
                if (failure && request_.widens) failure = solve_wide(i);
            if (!request_.log && request_.widens && request_.plan.refine < 0 && request_.value[i] < 0)
                failure = {failure ? Failure::lost : Failure::negative, i};
            if (failure && (!worst || worst.code == Failure::inaccurate)) worst = failure;
        }
        return worst;
    }

private:
    void solve(std::vector<long> members) {
        const int width = loops_.width<T>();
        const Blocks blocks(plans_, std::move(members), width);
        double total = 0;
        for (const Block& block : blocks.blocks) total += work(block.scheme, block.steps);
        parallel_for(useful_threads(request_.threads, total), long(blocks.blocks.size()), [&](long b) {
            const Block& block = blocks.blocks[b];
            const long* own = blocks.order.data() + block.begin;
            solve_lanes(block.scheme, own, int(block.count), block.steps, [](PackedBlock<T>& packed) {
                packed.pack();
                return true;
            });
        });
    }

    // Finite differences on series of equal length: no sorting is needed, and planning writes the increments directly
    // to the memory that the grid reads.
    Failure solve_as_they_come() {
        const int width = loops_.width<T>();
        const long vectors = (batch_.count + width - 1) / width, steps = batch_.points - 1;
        std::vector<Failure> failures(vectors);
        const double total = double(vectors) * work(finite_differences, steps);
        parallel_for(useful_threads(request_.threads, total), vectors, [&](long v) {
            long members[max_lanes];
            const int count = int(std::min<long>(width, batch_.count - v * width));
            for (int lane = 0; lane < count; ++lane) members[lane] = v * width + lane;
            solve_lanes(finite_differences, members, count, steps, [&](PackedBlock<T>& packed) {
                failures[v] = plan_lanes(batch_, request_.plan, nullptr, v * width, packed.data(), plans_);
                return !failures[v];
            });
        });
        for (const Failure& failure : failures)
            if (failure) return failure;
        return {};
    }

    double work(int scheme, long steps) const {
        const double degree = scheme_degree[scheme] + 1;
        return double(steps) * double(steps) * degree * degree * (request_.gradient ? 20 : 4);
    }

    // `pack` writes the series to the lanes, and returns whether to go on.
    template <class Pack>
    void solve_lanes(int scheme, const long* members, int count, long steps, const Pack& pack) {
        const int channels = batch_.channels, width = loops_.width<T>();
        const bool lifts = batch_.kernel.lifts(), fused_scales = request_.scales && !lifts;
        const std::size_t size = std::size_t(steps + 1) * channels * width;
        const std::size_t gradient_size =
            !request_.gradient ? 0 : fused_scales ? std::size_t(channels) * width : size * (lifts ? 2 : 1);
        PackedBlock<T> packed(batch_, plans_, members, count, steps, gradient_size + 5 * width);
        T *value = packed.extra(), *fall = value + width, *parameters = fall + 2 * width;
        T* gradient = parameters + 2 * width;
        if (!pack(packed)) return;
        GridTask<T> task;
        packed.attach(task);
        task.columns = steps;
        task.value = value;
        task.fall = fall;
        task.log = request_.log;
        task.gradient_x = request_.gradient ? gradient : nullptr;
        task.scales = fused_scales;
        task.parameters = parameters;
        if (!loops_.of<T>().diagonal[scheme](task)) {
            out_of_memory_ = true;
            return;
        }
        for (int lane = 0; lane < count; ++lane) {
            request_.value[members[lane]] = value[lane];
            inflation_[members[lane]] = double(fall[lane]) * double(fall[lane]) / ordinary_fall;
        }
        if (!request_.gradient) return;
        if (lifts) write_lifted_gradients(members, count, steps, gradient, parameters);
        else write_gradients(members, count, gradient, width);
    }

    // One series in float64.
    Failure solve_wide(long i) const {
        const long size = batch_.length(i) * batch_.channels, out = request_.scales ? batch_.channels : size;
        const long stride = request_.scales ? batch_.channels : batch_.points * batch_.channels;
        const std::vector<double> points(batch_.begin(i), batch_.begin(i) + size);
        std::vector<double> scale, gradient(request_.gradient ? out : 0);
        if (batch_.scale) scale.assign(batch_.scale, batch_.scale + batch_.channels);
        double value = 0, inflation = 1, parameters[2] = {};
        const SeriesBatch<double> one{points.data(), 1, batch_.length(i), batch_.channels, nullptr,
                                      batch_.scale ? scale.data() : nullptr, batch_.kernel};
        DiagonalRequest<double> request;
        request.plan = request_.plan;
        request.log = request_.log;
        request.value = &value;
        request.inflation = &inflation;
        request.gradient = request_.gradient ? gradient.data() : nullptr;
        request.scales = request_.scales;
        request.parameters = request_.parameters ? parameters : nullptr;
        Failure failure = DiagonalRun<double>(one, request).run();
        const double error = roundings * ordinary_fall * std::numeric_limits<double>::epsilon() * inflation;
        if (failure.code == Failure::inaccurate && error <= inaccurate_above_f32) failure = {};
        request_.value[i] = T(value);
        if (request_.gradient) std::copy(gradient.begin(), gradient.end(), request_.gradient + i * stride);
        if (request_.parameters) std::copy(parameters, parameters + 2, request_.parameters + 2 * i);
        if (!failure && !std::isfinite(request_.value[i])) failure = {Failure::overflow};
        if (failure) failure.series = i;
        return failure;
    }

    void write_lifted_gradients(const long* members, int count, long steps, const T* of_ends, const T* parameters) const {
        const int channels = batch_.channels, width = loops_.width<T>();
        const T* of_starts = of_ends + steps * channels * width;
        std::vector<T> points;
        for (int lane = 0; lane < count; ++lane) {
            const long series = members[lane];
            points.assign(batch_.points * channels, T(0));
            batch_.add_lifted(series, plans_[series], of_ends + lane, of_starts + lane, steps, width,
                              points.data());
            for (int which = 0; which < 2 && request_.parameters; ++which)
                request_.parameters[series * 2 + which] = parameters[which * width + lane];
            if (!request_.scales) {
                std::copy(points.begin(), points.end(), request_.gradient + series * batch_.points * channels);
                continue;
            }
            T* out = request_.gradient + series * channels;
            std::fill(out, out + channels, T(0));
            for (long i = 0; i < batch_.length(series) * channels; ++i) {
                const T* point = batch_.begin(series) + i / channels * channels;
                out[i % channels] += batch_.packed(series, point, int(i % channels)) * points[i];
            }
        }
    }

    void write_gradients(const long* members, int count, T* gradient, int width) const {
        const int channels = batch_.channels;
        if (request_.scales) {
            for (int lane = 0; lane < count; ++lane)
                for (int c = 0; c < channels; ++c)
                    request_.gradient[members[lane] * channels + c] = gradient[c * width + lane];
            return;
        }
        T* rows[max_lanes];
        std::vector<T> increments;
        long longest = 0;
        for (int lane = 0; lane < count; ++lane) {
            rows[lane] = request_.gradient + members[lane] * batch_.points * channels;
            const long segments = batch_.length(members[lane]) - 1;
            longest = std::max(longest, segments);
            if (!plans_[members[lane]].splits()) continue;
            // Gradients of pieces become gradients of segments, as they are for a series that is not split.
            increments.assign(segments * channels, T(0));
            batch_.add_unpacked(members[lane], plans_[members[lane]], gradient + lane, width, increments.data());
            for (long i = 0; i < segments * channels; ++i) gradient[i * width + lane] = increments[i];
        }
        loops_.of<T>().store_point_gradients(batch_.lanes(members, count, width), gradient, longest, rows,
                                             batch_.points);
    }

    // False if the plans already allow for all the inflation there is.
    bool solve_inflated_again() {
        std::vector<long> members;
        for (long i = 0; i < batch_.count; ++i) {
            const double ratio = std::min(inflation_[i], max_inflation);
            if (!(ratio > 1 && plans_[i].estimate * ratio > request_.plan.tol && ratio > allowed_[i])) continue;
            allowed_[i] = ratio;
            const std::vector<double> squared = batch_.squared_segments(i);
            PathSize size{long(squared.size())};
            for (double r : squared) {
                size.largest = std::max(size.largest, r);
                size.sum += r;
                size.fourth += r * r;
                size.eighth += r * r * r * r;
            }
            PlanRequest sharper = request_.plan;
            sharper.tol /= ratio;
            const Plan before = plans_[i];
            if (make_plan(size, sharper, plans_[i]) == Verdict::cut) make_cuts(size, squared, sharper, plans_[i]);
            if (plans_[i].costly(size.segments)) {  // what is lost is warned of
                plans_[i] = before;
                continue;
            }
            members.push_back(i);
        }
        if (members.empty()) return false;
        solve(std::move(members));
        return true;
    }

    const SeriesBatch<T>& batch_;
    const DiagonalRequest<T>& request_;
    const GoursatLoops& loops_;
    std::vector<Plan> plans_;
    std::vector<double> inflation_;
    std::vector<double> allowed_;  // what the plans were tightened by
    std::atomic<bool> out_of_memory_{false};
};

constexpr long series_per_chunk = 1024;

// Large batches are solved in chunks, each by one thread, so that what planning has read is still in its cache.
template <class T>
Failure solve_in_chunks(const SeriesBatch<T>& batch, const DiagonalRequest<T>& request) {
    const long chunks = (batch.count + series_per_chunk - 1) / series_per_chunk;
    const long gradient_size = request.scales ? batch.channels : batch.points * batch.channels;
    std::vector<Failure> failures(chunks);
    parallel_for(request.threads, chunks, [&](long chunk) {
        const long first = chunk * series_per_chunk;
        SeriesBatch<T> part = batch;
        part.data = batch.begin(first);
        part.count = std::min(series_per_chunk, batch.count - first);
        if (batch.lengths) part.lengths += first;
        DiagonalRequest<T> own = request;
        own.threads = 1;
        own.value += first;
        if (request.gradient) own.gradient += first * gradient_size;
        if (request.parameters) own.parameters += first * 2;
        if (request.inflation) own.inflation += first;
        failures[chunk] = DiagonalRun<T>(part, own).run();
        if (failures[chunk].series >= 0) failures[chunk].series += first;
    });
    Failure warning;
    for (const Failure& failure : failures) {
        if (failure && failure.code != Failure::inaccurate) return failure;
        if (failure && !warning) warning = failure;
    }
    return warning;
}

}  // namespace

template <class T>
Failure solve_diagonal(const SeriesBatch<T>& batch, const DiagonalRequest<T>& request) {
    if (batch.count >= 4 * series_per_chunk) return solve_in_chunks(batch, request);
    return DiagonalRun<T>(batch, request).run();
}

template Failure solve_diagonal(const SeriesBatch<double>&, const DiagonalRequest<double>&);
template Failure solve_diagonal(const SeriesBatch<float>&, const DiagonalRequest<float>&);

}  // namespace siggpde

// k(X_i, Y_j) for all pairs: a block of X in the lanes meets every Y in turn.
#include <algorithm>
#include <atomic>

#include "parallel.hpp"
#include "plan.hpp"
#include "series_batch.hpp"

namespace siggpde {

namespace {

constexpr long others_per_task = 64;  // how many Y a block of X meets in one task
constexpr long tasks_per_wave = 32;   // the gradients of so many tasks are kept, then summed in order

template <class T>
class GramRun {
public:
    GramRun(const GramSide<T>& x, const GramSide<T>& y, bool symmetric, const GramRequest<T>& request)
        : x_(x), y_(y), symmetric_(symmetric), request_(request), loops_(goursat_loops()),
          width_(loops_.width<T>()),
          rows_(x.plans, all_members(x.batch.count), width_), columns_(y.plans, all_members(y.batch.count), 1) {
        offsets_.reserve(y.batch.count + 1);
        long offset = 0;
        for (long at = 0; at < y.batch.count; ++at) {
            offsets_.push_back(offset);
            offset += y.plans[columns_.order[at]].steps * y.batch.channels;
        }
        offsets_.push_back(offset);
        increments_.resize(offset);
        if (lifts()) {
            ends_.resize(offset);
            factors_.resize(offset / y.batch.channels);
            chained_.assign(offset / y.batch.channels, 1);
        }
        for (long at = 0; at < y.batch.count; ++at) {
            const long j = columns_.order[at], first = offsets_[at], step = first / y.batch.channels;
            if (lifts())
                y.batch.pack_lifted(j, y.plans[j], increments_.data() + first, ends_.data() + first,
                                    factors_.data() + step, chained_.data() + step, 1);
            else y.batch.pack(j, y.plans[j], increments_.data() + first, 1);
        }
    }

    Failure run() {
        for (const Block& block : rows_.blocks) {
            // In the symmetric case a block meets the series up to its own last one, in the common order.
            const long others = symmetric_ ? block.begin + block.count : y_.batch.count;
            for (long begin = 0; begin < others; begin += others_per_task)
                tasks_.push_back({&block, begin, std::min(begin + others_per_task, others), {}, {}, {}});
        }
        if (request_.weight) differentiate();
        else each_task(0, long(tasks_.size()), [&](long t) { solve(tasks_[t]); });
        if (out_of_memory_) return {Failure::memory};
        if (!request_.weight) {
            const long columns = y_.batch.count;
            for (long i = 0; i < x_.batch.count * columns; ++i)
                if (!std::isfinite(request_.value[i])) return {Failure::overflow, i / columns, i % columns};
            for (long i = 0; symmetric_ && request_.plan.refine < 0 && i < columns; ++i)
                if (request_.value[i * columns + i] < 0) return {x_.rounding ? Failure::lost : Failure::negative, i};
        }
        return {};
    }

private:
    struct Task {
        const Block* block;
        long begin, end;            // range of columns_.order
        std::vector<T> of_x, of_y;  // gradients of the pieces
        double parameters[2] = {};
    };

    bool lifts() const { return x_.batch.kernel.lifts(); }
    long sides() const { return lifts() ? 2 : 1; }  // of a piece, that have a gradient

    template <class Work>
    void each_task(long begin, long end, const Work& work) {
        double operations = 0;
        for (long t = begin; t < end; ++t) {
            const double degree = scheme_degree[tasks_[t].block->scheme] + 1;
            const double columns = double(offsets_[tasks_[t].end] - offsets_[tasks_[t].begin]) / y_.batch.channels;
            operations += double(tasks_[t].block->steps) * columns * degree * degree * (request_.weight ? 20 : 4);
        }
        parallel_for(useful_threads(request_.threads, operations), end - begin, [&](long t) { work(begin + t); });
    }

    const GridFunctions<T>& functions() const { return loops_.of<T>(); }

    PackedBlock<T> packed_block(const Block& block, std::size_t extra) const {
        return {x_.batch, x_.plans, rows_.order.data() + block.begin, int(block.count), block.steps, extra};
    }

    GridTask<T> grid_task(const PackedBlock<T>& packed, const Block& block, long at, T* value, double* log_norm) const {
        GridTask<T> task;
        packed.attach(task);
        const Plan& plan = y_.plans[columns_.order[at]];
        task.columns = plan.steps;
        task.y = increments_.data() + offsets_[at];
        if (lifts()) {
            const long step = offsets_[at] / y_.batch.channels;
            task.lifted_y.from = task.y;
            task.lifted_y.to = ends_.data() + offsets_[at];
            if (plan.splits()) {
                task.lifted_y.factor = factors_.data() + step;
                task.lifted_y.chained = chained_.data() + step;
            }
        }
        task.value = value;
        if (request_.log_norm_x) {
            for (int lane = 0; lane < width_; ++lane) {
                const long i = rows_.order[block.begin + (lane < block.count ? lane : 0)];
                log_norm[lane] = request_.log_norm_x[i] + request_.log_norm_y[columns_.order[at]];
            }
            task.log_norm = log_norm;
        }
        return task;
    }

    int scheme(const Block& block, long at) const {
        return std::max(block.scheme, y_.plans[columns_.order[at]].scheme);
    }

    // Each pair of the symmetric case is done once: by the later of the two in the common order, as a lane.
    bool owns(const Block& block, int lane, long at) const { return !symmetric_ || block.begin + lane >= at; }

    void solve(const Task& task) {
        const Block& block = *task.block;
        PackedBlock<T> packed = packed_block(block, width_);
        T* value = packed.extra();
        double log_norm[max_lanes];
        packed.pack();
        for (long at = task.begin; at < task.end; ++at) {
            const GridTask<T> grid = grid_task(packed, block, at, value, log_norm);
            if (!functions().cross[scheme(block, at)](grid)) out_of_memory_ = true;
            const long j = columns_.order[at], columns = y_.batch.count;
            for (int lane = 0; lane < block.count; ++lane) {
                if (!owns(block, lane, at)) continue;
                const long i = rows_.order[block.begin + lane];
                request_.value[i * columns + j] = value[lane];
                if (symmetric_) request_.value[j * columns + i] = value[lane];
            }
        }
    }

    void differentiate_task(Task& task) {
        const Block& block = *task.block;
        const std::size_t used = std::size_t(block.steps) * x_.batch.channels * width_ * sides();
        PackedBlock<T> packed = packed_block(block, used + 4 * width_);
        T *value = packed.extra(), *weight = value + width_, *parameters = weight + width_;
        T* gradient = parameters + 2 * width_;
        double log_norm[max_lanes];
        packed.pack();
        task.of_x.assign(used, T(0));
        task.of_y.assign((offsets_[task.end] - offsets_[task.begin]) * sides(), T(0));
        for (long at = task.begin; at < task.end; ++at) {
            const long j = columns_.order[at], columns = y_.batch.count;
            for (int lane = 0; lane < width_; ++lane) {
                weight[lane] = 0;
                if (lane >= block.count || !owns(block, lane, at)) continue;
                const long i = rows_.order[block.begin + lane];
                weight[lane] = request_.weight[i * columns + j];
                if (symmetric_ && i != j) weight[lane] += request_.weight[j * columns + i];
            }
            GridTask<T> grid = grid_task(packed, block, at, value, log_norm);
            grid.weight = weight;
            grid.gradient_x = gradient;
            grid.gradient_y = task.of_y.data() + (offsets_[at] - offsets_[task.begin]) * sides();
            grid.parameters = parameters;
            if (!functions().cross[scheme(block, at)](grid)) out_of_memory_ = true;
            for (std::size_t i = 0; i < used; ++i) task.of_x[i] += gradient[i];
            for (int i = 0; i < 2 * width_ && lifts(); ++i) task.parameters[i / width_] += double(parameters[i]);
        }
    }

    void differentiate() {
        const int channels = x_.batch.channels;
        // Gradients of segments, or of the points of lifted paths.
        const long x_size = (x_.batch.points - (lifts() ? 0 : 1)) * channels;
        const long y_size = (y_.batch.points - (lifts() ? 0 : 1)) * channels;
        std::vector<double> of_x(x_.batch.count * x_size), of_y_own;
        if (!symmetric_) of_y_own.resize(y_.batch.count * y_size);
        std::vector<double>& of_y = symmetric_ ? of_x : of_y_own;
        double parameters[2] = {};
        for (long begin = 0; begin < long(tasks_.size()); begin += tasks_per_wave) {
            const long end = std::min(begin + tasks_per_wave, long(tasks_.size()));
            each_task(begin, end, [&](long t) { differentiate_task(tasks_[t]); });
            for (long t = begin; t < end; ++t) {
                Task& task = tasks_[t];
                for (int lane = 0; lane < task.block->count; ++lane) {
                    const long i = rows_.order[task.block->begin + lane];
                    add(x_, i, task.of_x.data() + lane, task.block->steps, width_, of_x.data() + i * x_size);
                }
                for (long at = task.begin; at < task.end; ++at) {
                    const long j = columns_.order[at];
                    add(y_, j, task.of_y.data() + (offsets_[at] - offsets_[task.begin]) * sides(), y_.plans[j].steps, 1,
                        of_y.data() + j * y_size);
                }
                for (int which = 0; which < 2; ++which) parameters[which] += task.parameters[which];
                task.of_x = {};
                task.of_y = {};
            }
        }
        write_knots(x_.batch, of_x, request_.gradient_x);
        if (!symmetric_) write_knots(y_.batch, of_y, request_.gradient_y);
        if (request_.parameters) std::copy(parameters, parameters + 2, request_.parameters);
    }

    // Adds the gradient of the pieces of a series, `steps` of them in the lanes, to that of its segments or points.
    static void add(const GramSide<T>& side, long series, const T* of_pieces, long steps, int stride, double* out) {
        const Plan& plan = side.plans[series];
        if (side.batch.kernel.lifts())
            side.batch.add_lifted(series, plan, of_pieces, of_pieces + steps * side.batch.channels * stride, steps, stride, out);
        else side.batch.add_unpacked(series, plan, of_pieces, stride, out);
    }

    static void write_knots(const SeriesBatch<T>& batch, const std::vector<double>& increments, T* knots) {
        if (batch.kernel.lifts()) {
            for (std::size_t i = 0; i < increments.size(); ++i) knots[i] = T(increments[i]);
            return;
        }
        const long size = (batch.points - 1) * batch.channels;
        for (long i = 0; i < batch.count; ++i)
            increments_to_knots(increments.data() + i * size, batch.points - 1, batch.points, batch.channels,
                                knots + i * batch.points * batch.channels);
    }

    const GramSide<T>&x_, &y_;
    const bool symmetric_;
    const GramRequest<T>& request_;
    const GoursatLoops& loops_;
    const int width_;
    const Blocks rows_, columns_;
    std::vector<long> offsets_;  // of each Y, in the order of columns_, in increments_
    std::vector<T> increments_;  // of lifted paths: the start points of the pieces' segments ...
    std::vector<T> ends_, factors_;  // ... their end points, and one over the pieces of the segment
    std::vector<unsigned char> chained_;
    std::vector<Task> tasks_;
    std::atomic<bool> out_of_memory_{false};
};

}  // namespace

// `log`: U is rescaled on the way, so that k itself may be out of range.
template <class T>
Failure GramSide<T>::prepare(const PlanRequest& request, bool log, int threads) {
    std::vector<double> inflation(batch.count, 1);
    if (request.refine < 0) {
        // A rough solution tells whether the path comes back on itself: only the magnitude matters. Finite
        // differences are too rough: where segments are long they may miss a fall of a thousand.
        std::vector<T> value(batch.count);
        DiagonalRequest<T> coarse;
        coarse.plan = request;
        coarse.plan.tol = std::max(request.tol, rough_tol);
        coarse.plan.diagonal_only = true;
        coarse.log = log;
        coarse.widens = false;
        coarse.value = value.data();
        coarse.inflation = inflation.data();
        coarse.threads = threads;
        const Failure failure = solve_diagonal(batch, coarse);
        if (failure.code == Failure::not_finite || failure.code == Failure::memory || failure.code == Failure::costly)
            return failure;
        if (failure.code == Failure::inaccurate || failure.code == Failure::lost) rounding = failure;
    }
    for (double& ratio : inflation) ratio = std::min(ratio, max_inflation);
    return plan_all(batch, request, inflation.data(), threads, plans);
}

template <class T>
Failure solve_gram(const GramSide<T>& rows, const SeriesBatch<T>& y, const GramRequest<T>& request) {
    GramSide<T> columns(y);
    if (Failure failure = columns.prepare(request.plan, request.log_norm_x, request.threads)) {
        failure.side = 1;
        return failure;
    }
    columns.rounding.side = 1;
    if (Failure failure = GramRun<T>(rows, columns, false, request).run()) return failure;
    return rows.rounding ? rows.rounding : columns.rounding;
}

template <class T>
Failure solve_gram(const SeriesBatch<T>& x, const SeriesBatch<T>* y, const GramRequest<T>& request) {
    GramSide<T> rows(x);
    if (Failure failure = rows.prepare(request.plan, request.log_norm_x, request.threads)) return failure;
    if (y) return solve_gram(rows, *y, request);
    const Failure failure = GramRun<T>(rows, rows, true, request).run();
    return failure ? failure : rows.rounding;
}

template struct GramSide<double>;
template struct GramSide<float>;
template Failure solve_gram(const GramSide<double>&, const SeriesBatch<double>&, const GramRequest<double>&);
template Failure solve_gram(const GramSide<float>&, const SeriesBatch<float>&, const GramRequest<float>&);
template Failure solve_gram(const SeriesBatch<double>&, const SeriesBatch<double>*, const GramRequest<double>&);
template Failure solve_gram(const SeriesBatch<float>&, const SeriesBatch<float>*, const GramRequest<float>&);

}  // namespace siggpde

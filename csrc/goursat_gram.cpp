// k(X_i, Y_j) for all pairs: a block of X in the lanes meets every Y in turn.
#include "goursat_drivers.hpp"

#include <algorithm>
#include <atomic>

#include "lane_blocks.hpp"
#include "parallel.hpp"
#include "batch_plans.hpp"

namespace siggpde {

namespace {

constexpr long others_per_task = 64;  // how many Y a block of X meets in one task
constexpr long tasks_per_wave = 32;   // the gradients of so many tasks are kept, then summed in order

// One side of the matrix: how each series is split, and with which degree.
template <class T>
struct Side {
    const SeriesBatch<T>& batch;
    std::vector<Plan> plans;
    Failure rounding;  // the first series that loses its digits, if any

    explicit Side(const SeriesBatch<T>& batch) : batch(batch), plans(batch.count) {}

    Failure prepare(const PlanRequest& request, int threads) {
        std::vector<double> inflation(batch.count, 1);
        if (request.refine < 0) {
            // A rough solution tells whether the path comes back on itself: only the magnitude matters. Finite
            // differences are too rough: where segments are long they may miss a fall of a thousand.
            std::vector<T> value(batch.count);
            DiagonalRequest<T> coarse;
            coarse.plan = request;
            coarse.plan.tol = std::max(request.tol, rough_tol);
            coarse.plan.diagonal_only = true;
            coarse.value = value.data();
            coarse.inflation = inflation.data();
            coarse.threads = threads;
            const Failure failure = solve_diagonal(batch, coarse);
            if (failure.code == Failure::not_finite || failure.code == Failure::memory) return failure;
            if (failure.code == Failure::inaccurate || failure.code == Failure::lost) rounding = failure;
        }
        for (double& ratio : inflation) ratio = std::min(ratio, max_inflation);
        return plan_all(batch, request, inflation.data(), threads, plans);
    }
};

template <class T>
class GramRun {
public:
    GramRun(const Side<T>& x, const Side<T>& y, bool symmetric, const GramRequest<T>& request)
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
        for (long at = 0; at < y.batch.count; ++at) {
            const long j = columns_.order[at];
            y.batch.pack(j, y.plans[j], increments_.data() + offsets_[at], 1);
        }
    }

    Failure run() {
        for (const Block& block : rows_.blocks) {
            // In the symmetric case a block meets the series up to its own last one, in the common order.
            const long others = symmetric_ ? block.begin + block.count : y_.batch.count;
            for (long begin = 0; begin < others; begin += others_per_task)
                tasks_.push_back({&block, begin, std::min(begin + others_per_task, others), {}, {}});
        }
        if (request_.weight) differentiate();
        else each_task(0, long(tasks_.size()), [&](long t) { solve(tasks_[t]); });
        if (out_of_memory_) return {Failure::memory};
        if (!request_.weight) {
            const long columns = y_.batch.count;
            for (long i = 0; i < x_.batch.count * columns; ++i)
                if (!std::isfinite(request_.value[i])) return {Failure::overflow, i / columns, i % columns};
        }
        return {};
    }

private:
    struct Task {
        const Block* block;
        long begin, end;            // range of columns_.order
        std::vector<T> of_x, of_y;  // gradients of the pieces
    };

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

    std::size_t packed_size(const Block& block) const {
        return std::size_t(block.steps + 1) * x_.batch.channels * width_;
    }

    void pack(const Block& block, T* x) const {
        pack_block(x_.batch, x_.plans, rows_.order.data() + block.begin, int(block.count), block.steps, x);
    }

    GridTask<T> grid_task(const Block& block, const T* x, long at, T* value) const {
        GridTask<T> task;
        task.x = x;
        task.rows = block.steps;
        task.channels = x_.batch.channels;
        task.y = increments_.data() + offsets_[at];
        task.columns = y_.plans[columns_.order[at]].steps;
        task.value = value;
        return task;
    }

    int scheme(const Block& block, long at) const {
        return std::max(block.scheme, y_.plans[columns_.order[at]].scheme);
    }

    // Each pair of the symmetric case is done once: by the later of the two in the common order, as a lane.
    bool owns(const Block& block, int lane, long at) const { return !symmetric_ || block.begin + lane >= at; }

    void solve(const Task& task) {
        const Block& block = *task.block;
        const std::size_t size = packed_size(block);
        Scratch<T> memory(size + width_);
        T *x = memory.get(), *value = x + size;
        pack(block, x);
        for (long at = task.begin; at < task.end; ++at) {
            const GridTask<T> grid = grid_task(block, x, at, value);
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
        const std::size_t size = packed_size(block);
        Scratch<T> memory(2 * size + 2 * width_);
        T *x = memory.get(), *gradient = x + size, *value = gradient + size, *weight = value + width_;
        pack(block, x);
        task.of_x.assign(size, T(0));
        task.of_y.assign(offsets_[task.end] - offsets_[task.begin], T(0));
        for (long at = task.begin; at < task.end; ++at) {
            const long j = columns_.order[at], columns = y_.batch.count;
            for (int lane = 0; lane < width_; ++lane) {
                weight[lane] = 0;
                if (lane >= block.count || !owns(block, lane, at)) continue;
                const long i = rows_.order[block.begin + lane];
                weight[lane] = request_.weight[i * columns + j];
                if (symmetric_ && i != j) weight[lane] += request_.weight[j * columns + i];
            }
            GridTask<T> grid = grid_task(block, x, at, value);
            grid.weight = weight;
            grid.gradient_x = gradient;
            grid.gradient_y = task.of_y.data() + (offsets_[at] - offsets_[task.begin]);
            if (!functions().cross[scheme(block, at)](grid)) out_of_memory_ = true;
            const std::size_t used = std::size_t(block.steps) * x_.batch.channels * width_;
            for (std::size_t i = 0; i < used; ++i) task.of_x[i] += gradient[i];
        }
    }

    void differentiate() {
        const int channels = x_.batch.channels;
        const long x_segments = x_.batch.points - 1, y_segments = y_.batch.points - 1;
        std::vector<double> of_x(x_.batch.count * x_segments * channels), of_y_own;
        if (!symmetric_) of_y_own.resize(y_.batch.count * y_segments * channels);
        std::vector<double>& of_y = symmetric_ ? of_x : of_y_own;
        for (long begin = 0; begin < long(tasks_.size()); begin += tasks_per_wave) {
            const long end = std::min(begin + tasks_per_wave, long(tasks_.size()));
            each_task(begin, end, [&](long t) { differentiate_task(tasks_[t]); });
            for (long t = begin; t < end; ++t) {
                Task& task = tasks_[t];
                for (int lane = 0; lane < task.block->count; ++lane) {
                    const long i = rows_.order[task.block->begin + lane];
                    x_.batch.add_unpacked(i, x_.plans[i], task.of_x.data() + lane, width_,
                                          of_x.data() + i * x_segments * channels);
                }
                for (long at = task.begin; at < task.end; ++at) {
                    const long j = columns_.order[at];
                    y_.batch.add_unpacked(j, y_.plans[j], task.of_y.data() + (offsets_[at] - offsets_[task.begin]), 1,
                                          of_y.data() + j * y_segments * channels);
                }
                task.of_x = {};
                task.of_y = {};
            }
        }
        write_knots(x_.batch, of_x, request_.gradient_x);
        if (!symmetric_) write_knots(y_.batch, of_y, request_.gradient_y);
    }

    static void write_knots(const SeriesBatch<T>& batch, const std::vector<double>& increments, T* knots) {
        const long size = (batch.points - 1) * batch.channels;
        for (long i = 0; i < batch.count; ++i)
            increments_to_knots(increments.data() + i * size, batch.points - 1, batch.points, batch.channels,
                                knots + i * batch.points * batch.channels);
    }

    const Side<T>&x_, &y_;
    const bool symmetric_;
    const GramRequest<T>& request_;
    const GoursatLoops& loops_;
    const int width_;
    const Blocks rows_, columns_;
    std::vector<long> offsets_;  // of each Y, in the order of columns_, in increments_
    std::vector<T> increments_;
    std::vector<Task> tasks_;
    std::atomic<bool> out_of_memory_{false};
};

}  // namespace

template <class T>
Failure solve_gram(const SeriesBatch<T>& x, const SeriesBatch<T>* y, const GramRequest<T>& request) {
    Side<T> rows(x);
    if (Failure failure = rows.prepare(request.plan, request.threads)) return failure;
    if (!y) {
        const Failure failure = GramRun<T>(rows, rows, true, request).run();
        return failure ? failure : rows.rounding;
    }
    Side<T> columns(*y);
    if (Failure failure = columns.prepare(request.plan, request.threads)) {
        failure.side = 1;
        return failure;
    }
    columns.rounding.side = 1;
    if (Failure failure = GramRun<T>(rows, columns, false, request).run()) return failure;
    return rows.rounding ? rows.rounding : columns.rounding;
}

template Failure solve_gram(const SeriesBatch<double>&, const SeriesBatch<double>*, const GramRequest<double>&);
template Failure solve_gram(const SeriesBatch<float>&, const SeriesBatch<float>*, const GramRequest<float>&);

}  // namespace siggpde

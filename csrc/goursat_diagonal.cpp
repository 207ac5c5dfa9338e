// k(X, X) of a batch, with or without its gradient.
#include "goursat_drivers.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include "blocks.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace siggpde {

namespace {

// A path that goes out and comes back has U(i, i) fall along the diagonal. The error of a cell beside k is then larger
// by up to the square of that fall, and the bound is tightened by as much. Beyond this, rounding is all there is.
constexpr double most_inflation = 1e12;
// Falls as small as those of a random walk are within the slack of the bound.
constexpr double ordinary_fall = 10;
// Relative error by rounding above which the caller is warned.
constexpr double worst_rounding = 1e-4;

template <class T>
class DiagonalRun {
public:
    DiagonalRun(const Batch<T>& batch, const DiagonalRequest<T>& request)
        : batch_(batch), request_(request), kernels_(goursat_kernels()), plans_(batch.count),
          inflation_(batch.count) {}

    Failure run() {
        PathSize size;
        for (long i = 0; i < batch_.count; ++i) {
            Failure failure;
            if (!batch_.measure(i, size, failure)) return failure;
            if (!make_plan(size, request_.plan, plans_[i])) return {Failure::overflow, i};
        }
        solve(all_members(batch_.count));
        if (request_.plan.refine < 0) solve_inflated_again();
        if (out_of_memory_) return {Failure::memory};
        if (request_.inflation) std::copy(inflation_.begin(), inflation_.end(), request_.inflation);
        for (long i = 0; i < batch_.count; ++i)
            if (!std::isfinite(request_.value[i])) return {Failure::overflow, i};
        for (long i = 0; i < batch_.count; ++i)
            if (inflation_[i] * std::numeric_limits<T>::epsilon() > worst_rounding) {
                const bool lost = inflation_[i] * std::numeric_limits<T>::epsilon() > 1;
                return {lost ? Failure::lost : Failure::inaccurate, i};
            }
        return {};
    }

private:
    void solve(std::vector<long> members) {
        const int width = sizeof(T) == 8 ? kernels_.width64 : kernels_.width32;
        const Blocks blocks(plans_, std::move(members), width);
        double work = 0;
        for (const Block& block : blocks.blocks) {
            const double degree = scheme_degree[block.scheme] + 1;
            work += double(block.steps) * double(block.steps) * degree * degree * (request_.gradient ? 20 : 4);
        }
        parallel_for(useful_threads(request_.threads, work), long(blocks.blocks.size()),
                     [&](long b) { solve_block(blocks, blocks.blocks[b], width); });
    }

    void solve_block(const Blocks& blocks, const Block& block, int width) {
        const int channels = batch_.channels;
        const std::size_t size = std::size_t(block.steps) * channels * width;
        const bool scales = request_.scales;
        const std::size_t gradient_size = !request_.gradient ? 0 : scales ? std::size_t(channels) * width : size;
        Scratch<T> memory(size + gradient_size + 3 * width);
        T *x = memory.get(), *value = x + size, *fall = value + width, *gradient = fall + 2 * width;
        for (int lane = 0; lane < width; ++lane) {
            long pieces = 0;
            if (lane < block.count) {
                const long series = blocks.order[block.begin + lane];
                pieces = batch_.pack(series, plans_[series], x + lane, width);
            }
            for (long i = pieces * channels; i < block.steps * channels; ++i) x[i * width + lane] = 0;
        }
        GridTask<T> task;
        task.x = x;
        task.rows = task.columns = block.steps;
        task.channels = channels;
        task.value = value;
        task.fall = fall;
        task.log = request_.log;
        task.gradient_x = request_.gradient ? gradient : nullptr;
        task.scales = scales;
        const auto& functions = [this]() -> const auto& {
            if constexpr (sizeof(T) == 8) return kernels_.f64;
            else return kernels_.f32;
        }();
        if (!functions.diagonal[block.scheme](task)) {
            out_of_memory_ = true;
            return;
        }
        std::vector<T> increments(request_.gradient && !scales ? block.steps * channels : 0);
        for (int lane = 0; lane < block.count; ++lane) {
            const long series = blocks.order[block.begin + lane];
            request_.value[series] = value[lane];
            inflation_[series] = double(fall[lane]) * double(fall[lane]) / ordinary_fall;
            if (request_.gradient) write_gradient(series, gradient + lane, width, increments.data());
        }
    }

    void write_gradient(long series, const T* gradient, int width, T* increments) const {
        const int channels = batch_.channels;
        if (request_.scales) {
            for (int c = 0; c < channels; ++c) request_.gradient[series * channels + c] = gradient[c * width];
            return;
        }
        const long segments = batch_.segments(series);
        std::fill_n(increments, segments * channels, T(0));
        batch_.add_unpacked(series, plans_[series], gradient, width, 1.0, increments);
        increments_to_knots(increments, segments, batch_.points, channels,
                            request_.gradient + series * batch_.points * channels);
    }

    void solve_inflated_again() {
        std::vector<long> members;
        for (long i = 0; i < batch_.count; ++i) {
            const double ratio = std::min(inflation_[i], most_inflation);
            if (!(ratio > 1 && plans_[i].estimate * ratio > request_.plan.tol)) continue;
            PathSize size;
            Failure failure;
            Request sharper = request_.plan;
            sharper.tol /= ratio;
            batch_.measure(i, size, failure);
            make_plan(size, sharper, plans_[i]);
            members.push_back(i);
        }
        if (!members.empty()) solve(std::move(members));
    }

    const Batch<T>& batch_;
    const DiagonalRequest<T>& request_;
    const GoursatKernels& kernels_;
    std::vector<Plan> plans_;
    std::vector<double> inflation_;
    std::atomic<bool> out_of_memory_{false};
};

}  // namespace

template <class T>
Failure solve_diagonal(const Batch<T>& batch, const DiagonalRequest<T>& request) {
    return DiagonalRun<T>(batch, request).run();
}

template Failure solve_diagonal(const Batch<double>&, const DiagonalRequest<double>&);
template Failure solve_diagonal(const Batch<float>&, const DiagonalRequest<float>&);

}  // namespace siggpde

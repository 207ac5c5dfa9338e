// A batch of series as it comes from the caller, and its pieces, split as planned, in the layout of the lanes: increments,
// or, for paths that a static kernel lifts, the end points of their segments.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "arguments.hpp"
#include "memory.hpp"
#include "parallel.hpp"
#include "plan.hpp"

namespace siggpde {

template <class T>
struct SeriesBatch {
    const T* data;  // [series][point][channel]
    long count, points;
    int channels;
    const long* lengths;  // [series], or null: all have `points`
    const T* scale;       // [channel], or null
    StaticKernel kernel = {};

    long length(long series) const { return lengths ? lengths[series] : points; }
    const T* begin(long series) const { return data + series * points * channels; }

    // `members` of the batch, at most a vector's width, one a lane.
    LaneSeries<T> lanes(const long* members, int how_many, int width) const {
        LaneSeries<T> out;
        out.count = how_many;
        out.channels = channels;
        out.scale = scale;
        for (int lane = 0; lane < width; ++lane) {
            const long series = members[lane < how_many ? lane : 0];
            out.rows[lane] = begin(series);
            out.points[lane] = length(series);
        }
        return out;
    }

    // The squared length of the segment that starts here, in the Hilbert space of the static kernel.
    double squared_segment(const T* at) const {
        double r = 0;
        for (int c = 0; c < channels; ++c) {
            double d = double(at[channels + c]) - double(at[c]);
            if (scale) d *= double(scale[c]);
            d /= kernel.bandwidth;
            r += d * d;
        }
        return kernel.squared_segment(r);
    }

    std::vector<double> squared_segments(long series) const {
        std::vector<double> squared(length(series) - 1);
        const T* at = begin(series);
        for (double& r : squared) r = squared_segment(at), at += channels;
        return squared;
    }

    // The first number of this series that is not finite, if there is one.
    Failure find_not_finite(long series) const {
        const T* at = begin(series);
        for (long i = 0; i < length(series) * channels; ++i)
            if (!std::isfinite(at[i])) return {Failure::not_finite, series, i / channels, i % channels};
        return {};
    }

    // Increments of a series, split as planned, at out[(piece * channels + c) * stride]; returns the pieces written.
    long pack(long series, const Plan& plan, T* out, int stride) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long written = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int c = 0; c < channels; ++c) {
                T d = at[channels + c] - at[c];
                if (scale) d *= scale[c];
                if (count > 1) d /= T(count);
                for (int p = 0; p < count; ++p) out[((written + p) * channels + c) * stride] = d;
            }
            written += count;
        }
        return written;
    }

    // The reverse of pack: gradients of pieces, added up to gradients of increments [segment][channel].
    template <class Out>
    void add_unpacked(long series, const Plan& plan, const T* of_pieces, int stride, Out* out) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long piece = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int c = 0; c < channels; ++c) {
                double sum = 0;
                for (int p = 0; p < count; ++p) sum += double(of_pieces[((piece + p) * channels + c) * stride]);
                out[i * channels + c] += Out(sum / count);
            }
            piece += count;
        }
    }

    // The segments of all pieces of a series that is lifted; returns the pieces written. `starts` [piece] becomes 0 where a
    // piece is not the first of its segment.
    long pack_lifted(long series, const Plan& plan, T* from, T* to, T* factor, unsigned char* starts, int stride) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long written = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int p = 0; p < count; ++p, ++written) {
                for (int c = 0; c < channels; ++c) {
                    from[(written * channels + c) * stride] = packed(series, at, c);
                    to[(written * channels + c) * stride] = packed(series, at + channels, c);
                }
                factor[written * stride] = T(1) / T(count);
                if (p > 0) starts[written] = 0;
            }
        }
        return written;
    }

    // The reverse of pack_lifted: gradients at the ends and starts of segments, `steps` of them, added up to those of
    // points [point][channel]. Steps after the end of the series rest at its last point.
    template <class Out>
    void add_lifted(long series, const Plan& plan, const T* of_ends, const T* of_starts, long steps, int stride,
                    Out* out) const {
        const long segments = length(series) - 1;
        const T* at = begin(series);
        long piece = 0;
        for (long i = 0; i < segments; ++i, at += channels) {
            const int count = segment_pieces(at, plan);
            for (int p = 0; p < count; ++p, ++piece)
                for (int c = 0; c < channels; ++c) {
                    const long index = (piece * channels + c) * stride;
                    out[i * channels + c] += Out(of_starts[index]);
                    out[(i + 1) * channels + c] += Out(of_ends[index]);
                }
        }
        for (; piece < steps; ++piece)
            for (int c = 0; c < channels; ++c) {
                const long index = (piece * channels + c) * stride;
                out[segments * channels + c] += Out(of_ends[index]) + Out(of_starts[index]);
            }
    }

    // A coordinate of a point for a static kernel: scaled, and then with the first point of its series at the origin.
    T packed(long series, const T* point, int c) const {
        return scale ? (point[c] - begin(series)[c]) * scale[c] : point[c];
    }

private:
    int segment_pieces(const T* at, const Plan& plan) const {
        return plan.longest > 0 ? piece_count(plan, std::sqrt(squared_segment(at))) : plan.uniform;
    }
};

// Gradients of increments [segment][channel] become gradients of knots [point][channel], written.
template <class T, class In>
void increments_to_knots(const In* increments, long segments, long points, int channels, T* knots) {
    for (long i = 0; i < points; ++i)
        for (int c = 0; c < channels; ++c) {
            In before = i > 0 && i <= segments ? increments[(i - 1) * channels + c] : In(0);
            In after = i < segments ? increments[i * channels + c] : In(0);
            knots[i * channels + c] = T(before - after);
        }
}

// Plans for all series of a batch, measured a vector's width at a time.

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
        if (plans[series].costly(size.segments)) return {Failure::costly, series};
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

// The series of a block in the lanes, split as planned: what the rows of a grid read.
template <class T>
class PackedBlock {
public:
    // `members` of the batch, `count` of them, none with more than `steps` pieces. `extra` numbers are left free for the
    // caller behind the packed ones.
    PackedBlock(const SeriesBatch<T>& batch, const std::vector<Plan>& plans, const long* members, int count, long steps,
                std::size_t extra)
        : batch_(batch), plans_(plans), members_(members), count_(count), steps_(steps),
          width_(goursat_loops().width<T>()),
          separate_(batch.kernel.lifts() &&
                    std::any_of(members, members + count, [&](long i) { return plans[i].splits(); })),
          size_(std::size_t(steps + 1) * batch.channels * width_), memory_(packed_size() + extra) {}

    // Memory behind the packed series.
    T* extra() const { return memory_.get() + packed_size(); }
    T* data() const { return memory_.get(); }

    void pack() {
        if (separate_) return pack_separately();
        const GridFunctions<T>& functions = goursat_loops().of<T>();
        const LaneSeries<T> lanes = batch_.lanes(members_, count_, width_);
        const int channels = batch_.channels;
        long taken = 0;
        for (int lane = 0; lane < count_; ++lane) taken = std::max(taken, batch_.length(members_[lane]) - 1);
        T* out = memory_.get();
        if (batch_.kernel.lifts()) {
            functions.load_points(lanes, batch_.kernel, out, nullptr);
            return;
        }
        functions.load_increments(lanes, out, nullptr);
        std::fill(out + taken * channels * width_, out + steps_ * channels * width_, T(0));
        for (int lane = 0; lane < width_; ++lane) {
            // Lanes without a series rest: what they compute must be finite, for their gradients are summed with the others.
            const bool idle = lane >= count_;
            if (!idle && !plans_[members_[lane]].splits()) continue;
            const long pieces = idle ? 0 : batch_.pack(members_[lane], plans_[members_[lane]], out + lane, width_);
            for (long i = pieces * channels; i < steps_ * channels; ++i) out[i * width_ + lane] = 0;
        }
    }

    // Tells a grid where its rows are.
    void attach(GridTask<T>& task) const {
        task.kernel = batch_.kernel;
        task.rows = steps_;
        task.channels = batch_.channels;
        if (!batch_.kernel.lifts()) {
            task.x = memory_.get();
            return;
        }
        const T* from = memory_.get();
        task.lifted_x.from = from;
        task.lifted_x.to = separate_ ? from + size_ : from + batch_.channels * width_;
        if (!separate_) return;
        task.lifted_x.factor = from + 2 * size_;
        task.lifted_x.chained = chained_.data();
    }

private:
    std::size_t packed_size() const { return separate_ ? 2 * size_ + std::size_t(steps_ + 1) * width_ : size_; }

    void pack_separately() {
        const int channels = batch_.channels;
        T *from = memory_.get(), *to = from + size_, *factor = to + size_;
        chained_.assign(steps_, 1);
        for (int lane = 0; lane < width_; ++lane) {
            const long series = members_[lane < count_ ? lane : 0];
            const long pieces = lane < count_ ? batch_.pack_lifted(series, plans_[series], from + lane, to + lane,
                                                                   factor + lane, chained_.data(), width_)
                                              : 0;
            for (long i = pieces; i < steps_; ++i) {  // stay at the last point
                factor[i * width_ + lane] = 1;
                for (int c = 0; c < channels; ++c) {
                    const long index = (i * channels + c) * width_ + lane;
                    from[index] = to[index] =
                        i > 0 ? to[index - channels * width_] : batch_.packed(series, batch_.begin(series), c);
                }
            }
        }
    }

    const SeriesBatch<T>& batch_;
    const std::vector<Plan>& plans_;
    const long* members_;
    const int count_;
    const long steps_;
    const int width_;
    const bool separate_;  // lifted, and a segment is split: its pieces share their end points
    const std::size_t size_;
    Scratch<T> memory_;
    std::vector<unsigned char> chained_;
};

// The two calls of the signature kernel on whole batches.
template <class T>
struct DiagonalRequest {
    PlanRequest plan;
    bool log = false;
    T* value = nullptr;     // [series]
    T* gradient = nullptr;  // null; [series][point][channel]; or [series][channel] if `scales`
    bool scales = false;    // gradient in the logarithms of the channel scales
    T* parameters = nullptr;  // [series][2], with a gradient of lifted paths: in the logarithms of bandwidth and amplitude
    double* inflation = nullptr;  // [series], or null: how much larger the error can be than planned
    bool widens = true;  // series whose digits are lost in float32 are solved in float64
    int threads = 1;
};

template <class T>
Failure solve_diagonal(const SeriesBatch<T>& batch, const DiagonalRequest<T>& request);

template <class T>
struct GramRequest {
    PlanRequest plan;
    const double *log_norm_x = nullptr, *log_norm_y = nullptr;  // [x], [y], or null: k is divided by both exponentials
    T* value = nullptr;          // [x][y]; not written if a gradient is wanted
    const T* weight = nullptr;   // [x][y]: sensitivity of every value
    T* gradient_x = nullptr;     // [x][point][channel]
    T* gradient_y = nullptr;     // [y][point][channel]; null if y is x
    double* parameters = nullptr;  // [2], with a gradient of lifted paths: in the logarithms of bandwidth and amplitude
    int threads = 1;
};

// One side of the matrix: how each series is split, and with which degree.
template <class T>
struct GramSide {
    const SeriesBatch<T>& batch;
    std::vector<Plan> plans;
    Failure rounding;  // the first series that loses its digits, if any

    explicit GramSide(const SeriesBatch<T>& batch) : batch(batch), plans(batch.count) {}
    Failure prepare(const PlanRequest& request, bool log, int threads);
};

// `x` is prepared.
template <class T>
Failure solve_gram(const GramSide<T>& x, const SeriesBatch<T>& y, const GramRequest<T>& request);

// `y` null: the symmetric Gram matrix of x.
template <class T>
Failure solve_gram(const SeriesBatch<T>& x, const SeriesBatch<T>* y, const GramRequest<T>& request);

}  // namespace siggpde

// The series of a block in the lanes, split as planned: what the rows of a grid read.
#pragma once

#include <algorithm>

#include "lane_blocks.hpp"
#include "scratch.hpp"
#include "series_batch.hpp"

namespace siggpde {

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

}  // namespace siggpde

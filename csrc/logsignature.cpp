// The logarithm of signatures as Python sees it: coordinates prepared once, with forward and backward.
//
// Buffers are passed as addresses of contiguous CPU memory; the caller has checked shapes and types.
#include "logsignature.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "arguments.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "without_gil.hpp"

namespace nb = nanobind;

namespace siggpde {

namespace {

using Ints = std::vector<int>;

template <class T>
const LogLoops<T>& loops();

template <>
const LogLoops<float>& loops<float>() {
    SIGGPDE_PICK(logsignature_float)
}

template <>
const LogLoops<double>& loops<double>() {
    SIGGPDE_PICK(logsignature_double)
}

class LogCoordinates {
public:
    // Word i has length[i] letters, is number rank[i] among the words of that length, and has column[i] of the
    // signature. `row`, `index` and `value` are the change of basis as rows of a sparse matrix; empty: none.
    LogCoordinates(int channels, int depth, long columns, const Ints& length, const std::vector<long>& rank,
                   const Ints& column, const Ints& row, const Ints& index, const std::vector<double>& value)
        : offset_{0, 1}, column_(column), split_{0}, row_(row), index_(index), value_(value) {
        std::vector<long> power{1};
        for (int m = 1; m <= depth; ++m) {
            power.push_back(power.back() * channels);
            if (m < depth) offset_.push_back(offset_.back() + power.back());
        }
        for (std::size_t i = 0; i < length.size(); ++i) {
            for (int j = 1; j < length[i]; ++j) {
                const long right = power[length[i] - j];
                prefix_.push_back(int(offset_[j] + rank[i] / right));
                suffix_.push_back(int(offset_[length[i] - j] + rank[i] % right));
            }
            split_.push_back(int(prefix_.size()));
        }
        const int words = int(column_.size());
        view_ = {channels,       depth,          columns,      offset_.data(), words,         column_.data(),
                 split_.data(),  prefix_.data(), suffix_.data(), nullptr,      index_.data(), value_.data(),
                 words};
        if (!row_.empty()) view_.row = row_.data(), view_.coordinates = int(row_.size()) - 1;
        for (int m = 1; m < depth; ++m) work_ += double(m) * double(power[m]);
        work_ += double(columns) + double(prefix_.size()) + double(index_.size());
    }
    LogCoordinates(const LogCoordinates&) = delete;
    LogCoordinates& operator=(const LogCoordinates&) = delete;

    template <class T>
    int forward(long n, const T* signature, T* out, int threads) const {
        const auto& run = loops<T>();
        const std::size_t bytes = std::size_t(run.forward_memory(view_)) * run.vector_bytes;
        std::atomic<bool> finite{true};
        threads = useful_threads(threads, work_ * double(n) / run.width);
        for_blocks(n, run.width, threads, bytes, [&](long block, void* memory) {
            if (!run.forward(view_, n, block, signature, out, memory)) finite = false;
        });
        return finite ? Failure::none : Failure::overflow;
    }

    template <class T>
    void backward(long n, const T* signature, const T* grad_out, T* grad_signature, int threads) const {
        const auto& run = loops<T>();
        const std::size_t bytes = std::size_t(run.backward_memory(view_)) * run.vector_bytes;
        threads = useful_threads(threads, 3 * work_ * double(n) / run.width);
        for_blocks(n, run.width, threads, bytes, [&](long block, void* memory) {
            run.backward(view_, n, block, signature, grad_out, grad_signature, memory);
        });
    }

    const LogView& view() const { return view_; }

private:
    std::vector<long> offset_;
    Ints column_, split_, prefix_, suffix_, row_, index_;
    std::vector<double> value_;
    LogView view_;
    double work_ = 0;  // vector operations for one block, about
};

template <class T>
int forward(const LogCoordinates& log, std::uintptr_t signature, long n, std::uintptr_t out, int threads) {
    const WithoutGil unlocked;
    return log.forward<T>(n, at<const T>(signature), at<T>(out), threads);
}

template <class T>
void backward(const LogCoordinates& log, std::uintptr_t signature, long n, std::uintptr_t grad_out,
              std::uintptr_t grad_signature, int threads) {
    const WithoutGil unlocked;
    log.backward<T>(n, at<const T>(signature), at<const T>(grad_out), at<T>(grad_signature), threads);
}

}  // namespace

void bind_logsignature(nb::module_& module) {
    nb::class_<LogCoordinates>(module, "LogCoordinates", "Coordinates of the logarithm of signatures.")
        .def(nb::init<int, int, long, const Ints&, const std::vector<long>&, const Ints&, const Ints&, const Ints&,
                      const std::vector<double>&>())
        .def_prop_ro("coordinates", [](const LogCoordinates& self) { return self.view().coordinates; })
        .def("forward_float", &forward<float>)
        .def("forward_double", &forward<double>)
        .def("backward_float", &backward<float>)
        .def("backward_double", &backward<double>);
}

}  // namespace siggpde

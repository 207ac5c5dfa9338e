// Python's view of the signature kernel. Tensors come as addresses: checked, contiguous and alive, by the caller.
#include "goursat_drivers.hpp"

#include <nanobind/nanobind.h>

#include <cstdint>

namespace nb = nanobind;

namespace siggpde {

namespace {

template <class T>
T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// None, or (what, series, time, channel, side).
nb::object report(const Failure& failure) {
    if (!failure) return nb::none();
    return nb::make_tuple(int(failure.code), failure.series, failure.time, failure.channel, failure.side);
}

template <class T>
Request plan_request(int refine, double tol, bool alone, bool log) {
    Request request;
    request.refine = refine;
    request.tol = tol;
    request.alone = alone;
    request.too_long = log ? 1e4 : overflowing_segment<T>();
    return request;
}

template <class T>
nb::object diagonal(std::uintptr_t x, long count, long points, int channels, std::uintptr_t lengths, std::uintptr_t scale,
                    int refine, double tol, bool log, std::uintptr_t value, std::uintptr_t gradient, bool scales,
                    int threads) {
    const SeriesBatch<T> batch{at<const T>(x), count, points, channels, at<const long>(lengths), at<const T>(scale)};
    DiagonalRequest<T> request;
    request.plan = plan_request<T>(refine, tol, true, log);
    request.log = log;
    request.value = at<T>(value);
    request.gradient = at<T>(gradient);
    request.scales = scales;
    request.threads = threads;
    Failure failure;
    {
        nb::gil_scoped_release unlocked;
        failure = solve_diagonal(batch, request);
    }
    return report(failure);
}

template <class T>
nb::object gram(std::uintptr_t x, long x_count, long x_points, std::uintptr_t x_lengths, std::uintptr_t y, long y_count,
                long y_points, std::uintptr_t y_lengths, int channels, int refine, double tol, std::uintptr_t value,
                std::uintptr_t weight, std::uintptr_t gradient_x, std::uintptr_t gradient_y, int threads) {
    const SeriesBatch<T> xs{at<const T>(x), x_count, x_points, channels, at<const long>(x_lengths), nullptr};
    const SeriesBatch<T> ys{at<const T>(y), y_count, y_points, channels, at<const long>(y_lengths), nullptr};
    GramRequest<T> request;
    request.plan = plan_request<T>(refine, tol, false, false);
    request.value = at<T>(value);
    request.weight = at<const T>(weight);
    request.gradient_x = at<T>(gradient_x);
    request.gradient_y = at<T>(gradient_y);
    request.threads = threads;
    Failure failure;
    {
        nb::gil_scoped_release unlocked;
        failure = solve_gram(xs, y ? &ys : nullptr, request);
    }
    return report(failure);
}

// Row i times factor[i * stride], in place.
template <class T>
void scale_rows(std::uintptr_t rows, long count, long size, std::uintptr_t factor, long stride) {
    T* row = at<T>(rows);
    for (long i = 0; i < count; ++i, row += size) {
        const T by = at<const T>(factor)[i * stride];
        for (long j = 0; j < size; ++j) row[j] *= by;
    }
}

}  // namespace

void bind_goursat(nb::module_& module) {
    module.def("diagonal_f64", &diagonal<double>);
    module.def("diagonal_f32", &diagonal<float>);
    module.def("scale_rows_f64", &scale_rows<double>);
    module.def("scale_rows_f32", &scale_rows<float>);
    module.def("gram_f64", &gram<double>);
    module.def("gram_f32", &gram<float>);
}

}  // namespace siggpde
